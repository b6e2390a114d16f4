"""The operations that the engine knows, by kind.

An operation is known by its plain name: `torch.add`, `Tensor.add_`, `Tensor.__radd__` and `aten.add.Tensor` are all
`add`.
"""

LINEAR = frozenset(
    "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d addmm addmv addbmm baddbmm".split()
)
BATCH_NORM = frozenset({"batch_norm"})
MATRIX_PRODUCT = frozenset("matmul rmatmul bmm mm mv dot inner outer einsum tensordot chain_matmul".split())
SUM = frozenset("add sub rsub sum mean".split())
SCALE = frozenset({"mul", "div", "rdiv", "neg"})
# f(0) = 0: the identity rule is defined for each of these on its own.
ACTIVATION = frozenset(
    "gelu silu relu relu6 leaky_relu elu celu selu mish hardswish hardtanh softsign tanh tanhshrink hardshrink "
    "softshrink "
    "prelu erf square abs sin".split()
)
# Pointwise, but with f(0) != 0 or undefined: only as part of a longer pointwise expression.
POINTWISE = frozenset(
    "pow rpow sigmoid hardsigmoid exp exp2 expm1 log log1p log_sigmoid softplus reciprocal sqrt rsqrt clamp clamp_min "
    "clamp_max cos".split()
)
NORM = frozenset("layer_norm native_layer_norm rms_norm".split())
GROUP_NORM = frozenset({"group_norm", "instance_norm"})
# One product for each group of rows: the experts of a mixture, in one call.
GROUPED = frozenset({"_grouped_mm", "grouped_mm", "transformers::grouped_mm_fallback"})
# A linear map of the whole input, known by the fast way to compute it.
TRANSFORM = frozenset(
    "fft_fft fft_ifft fft_rfft fft_irfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 fft_fftn fft_ifftn fft_rfftn "
    "fft_irfftn".split()
)
DEVIATION = frozenset("std norm vector_norm var".split())
SOFTMAX = frozenset({"softmax"})
ATTENTION = frozenset({"scaled_dot_product_attention"})
DROPOUT = frozenset("dropout dropout1d dropout2d dropout3d alpha_dropout feature_dropout feature_alpha_dropout".split())
EMBEDDING = frozenset({"embedding"})
# Linear, or a selection whose choice is held constant: relevance follows the gradient.
PASS = frozenset(
    "view view_as reshape reshape_as transpose permute t contiguous clone expand expand_as unsqueeze squeeze flatten "
    "unflatten "
    "ravel narrow select index_select gather take take_along_dim getitem setitem unbind split chunk tensor_split cat "
    "stack "
    "hstack vstack dstack to type type_as float double half bfloat16 cpu cuda roll flip rot90 repeat repeat_interleave "
    "tile "
    "movedim moveaxis masked_fill masked_select masked_scatter where index_add index_copy index_put index_fill scatter "
    "scatter_add scatter_reduce tril triu diagonal diag diag_embed unfold fold pad cumsum max amax min amin maximum "
    "minimum topk "
    "sort max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_avg_pool3d interpolate upsample copy fill as_strided alias identity slice real get:T get:mT get:H get:mH "
    "get:real pixel_shuffle pixel_unshuffle broadcast_to atleast_1d atleast_2d atleast_3d nan_to_num kthvalue "
    "channel_shuffle "
    "resolve_conj resolve_neg broadcast_tensors zero view_as_complex view_as_real as_tensor".split()
)
# The same tensor again, for every purpose.
CAST = frozenset("to float double half bfloat16 clone contiguous type type_as as_tensor".split())
# The second tensor only lends its shape, dtype or device.
LIKE = frozenset({"expand_as", "view_as", "reshape_as", "type_as", "to"})
# These cut an activation off the graph behind the engine's back, or turn it into plain numbers.
CUT = frozenset({"detach", "get:data"})
NUMBER = frozenset("item tolist numpy array set:data dlpack reduce_ex storage untyped_storage".split())
# Whole numbers that are made of an activation's values; comparisons and choices (argmax, topk) are held constant.
INTEGER = frozenset("long int short byte char bucketize searchsorted".split())
# New tensors in the shape of the first argument, filled with the second.
FILL = frozenset({"full_like", "new_full"})
# What would change gradients on their way back.
HOOK = frozenset({"register_hook", "register_post_accumulate_grad_hook", "get:grad_fn"})
# Never carry relevance, or read only what a tensor looks like.
PLAIN = frozenset(
    "size dim numel stride storage_offset is_contiguous is_floating_point is_complex element_size get_device nelement "
    "len "
    "eq ne lt le gt ge isnan isinf isfinite all any argmax argmin argsort nonzero equal allclose bool hash repr str "
    "format "
    "is_same_size requires_grad_ retain_grad "
    "zeros_like ones_like empty_like rand_like randn_like new_zeros new_ones "
    "new_empty iter contains ndimension data_ptr is_signed logical_not logical_and logical_or "
    "backward is_inference "
    "isclose sign count_nonzero is_nonzero "
    "result_type can_cast promote_types broadcast_shapes is_tensor is_pinned has_names is_neg is_conj "
    "is_grad_enabled".split()
)
PROPERTIES = frozenset({"get:T", "get:mT", "get:H", "get:mH", "get:real", "get:data", "set:data", "get:grad_fn"})

# A choice between the values of several functions, which may be of one tensor.
CHOICE = frozenset({"where"})
# A pointwise expression that has f(0) != 0 so far may go on in these.
GOES_ON = SCALE | SUM | ACTIVATION | POINTWISE | CAST | CHOICE
# Constants made from activations (normalisers, above all) stay what they are through these, and may meet activations in
# those.
KEEPS_HELD = PASS | CAST | SCALE | SUM | ACTIVATION | POINTWISE | LINEAR | MATRIX_PRODUCT
TAKES_NORMALISER = MATRIX_PRODUCT | {"mul", "div"}
TAKES_COEFFICIENT = TAKES_NORMALISER | LIKE | ATTENTION | {"linalg_solve_triangular"}
# To allow one of these means its plain gradient wherever it is met; of all others, only where their rule refuses.
ALLOWED_WHOLLY = ACTIVATION | POINTWISE | DEVIATION | CUT | NUMBER | INTEGER | HOOK
