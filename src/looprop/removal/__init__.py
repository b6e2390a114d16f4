"""The set function: what is the target's value when only these features are kept?"""
