"""Words that an exported kernel may use.

Triton walks a kernel's syntax tree in the launching process and calls the functions that its names resolve to. A name
of a module gives access to everything that the module imports. A sandbox contains that, but users run a package
unprotected. So an extracted function may use only these words of Triton's language, and only listed attributes of
values. Before a new word of Triton's is added here, a person has to check what it gives access to.
"""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


LANGUAGE = _words("""
    abs add advance arange argmax argmin associative_scan assume atomic_add atomic_and atomic_cas
    atomic_max atomic_min atomic_or atomic_xchg atomic_xor bfloat16 bitonic_merge block_type broadcast
    broadcast_to cast cat cdiv ceil clamp const constexpr cos cumprod cumsum debug_barrier div_rn dot dot_scaled
    erf exp exp2 expand_dims fdiv flip float16 float32 float64 float8e4b15 float8e4b8 float8e4nv float8e5
    float8e5b16 floor fma full gather histogram inline_asm_elementwise int1 int16 int32 int64 int8 interleave
    join load load_tensor_descriptor log log2 make_block_ptr make_tensor_descriptor map_elementwise max
    max_constancy max_contiguous maximum min minimum mul multiple_of num_programs pair_uniform_to_normal permute
    philox philox_impl pi32_t pointer_type program_id rand rand4x randint randint4x randn randn4x range ravel
    reduce reduce_or reshape rsqrt sigmoid sin softmax sort split sqrt sqrt_rn squeeze static_assert
    static_range store store_tensor_descriptor sub sum swizzle2d topk trans uint16 uint32 uint64 uint8
    uint_to_uniform_float umulhi unsqueeze view void where xor_sum zeros zeros_like
""")
"""Names in `__all__` of `triton.language`, without modules and functions that print on the host."""

MATHEMATICS = _words("""
    abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi
""")
"""Names of `triton.language.math`."""

LIBDEVICE = _words("""
    abs acos acosh add_rd add_rn add_ru add_rz asin asinh atan atan2 atanh brev byte_perm cbrt ceil clz copysign
    cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 div_rd div_rn div_ru div_rz double2float_rd double2float_rn
    double2float_ru double2float_rz double2hiint double2int_rd double2int_rn double2int_ru double2int_rz
    double2ll_rd double2ll_rn double2ll_ru double2ll_rz double2loint double2uint_rd double2uint_rn
    double2uint_ru double2uint_rz double2ull_rd double2ull_rn double2ull_ru double2ull_rz double_as_longlong erf
    erfc erfcinv erfcx erfinv exp exp10 exp2 expm1 fast_cosf fast_dividef fast_exp10f fast_expf fast_log10f
    fast_log2f fast_logf fast_powf fast_sinf fast_tanf fast_tanhf fdim ffs finitef float2int_rd float2int_rn
    float2int_ru float2int_rz float2ll_rd float2ll_rn float2ll_ru float2ll_rz float2uint_rd float2uint_rn
    float2uint_ru float2uint_rz float2ull_rd float2ull_rn float2ull_ru float2ull_rz float_as_int float_as_uint
    floor fma fma_rd fma_rn fma_ru fma_rz fmod hadd hiloint2double hypot ilogb int2double_rn int2float_rd
    int2float_rn int2float_ru int2float_rz int_as_float isfinited isinf isnan j0 j1 jn ldexp lgamma ll2double_rd
    ll2double_rn ll2double_ru ll2double_rz ll2float_rd ll2float_rn ll2float_ru ll2float_rz llrint llround log
    log10 log1p log2 logb longlong_as_double mul24 mul_rd mul_rn mul_ru mul_rz mulhi nearbyint nextafter norm3d
    norm4d normcdf normcdfinv popc pow rcbrt rcp64h rcp_rd rcp_rn rcp_ru rcp_rz remainder rhadd rhypot rint
    rnorm3d rnorm4d round rsqrt rsqrt_rn sad saturatef scalbn signbit sin sinh sinpi sqrt sqrt_rd sqrt_rn
    sqrt_ru sqrt_rz sub_rd sub_rn sub_ru sub_rz tan tanh tgamma trunc uint2double_rn uint2float_rd uint2float_rn
    uint2float_ru uint2float_rz uint_as_float ull2double_rd ull2double_rn ull2double_ru ull2double_rz
    ull2float_rd ull2float_rn ull2float_ru ull2float_rz y0 y1 yn
""")
"""Names of `triton.language.extra.libdevice`."""

GLUON = "triton.experimental.gluon"
"""Gluon's module."""

GLUON_LANGUAGE = _words("""
    add allocate_shared_memory arange associative_scan assume atomic_add atomic_and atomic_cas atomic_max atomic_min
    atomic_or atomic_xchg atomic_xor bank_conflicts barrier bfloat16 block_type broadcast cast cdiv ceil constexpr
    convert_layout cos div_rn dot_fma erf exp exp2 expand_dims fdiv float16 float32 float64 float8e4b15 float8e4b8
    float8e4nv float8e5 float8e5b16 floor fma fp4_to_fp full full_like gather histogram inline_asm_elementwise int1
    int16 int32 int64 int8 join load log log2 map_elementwise max max_constancy max_contiguous maximum min minimum mul
    multiple_of num_ctas num_programs num_warps permute pointer_type program_id ravel reduce reduce_or reshape rsqrt
    set_auto_layout sin split sqrt sqrt_rn static_assert static_range store sub sum thread_barrier to_linear_layout
    to_tensor uint16 uint32 uint64 uint8 umulhi void warp_specialize where xor_sum zeros zeros_like
""")
"""Names of `triton.experimental.gluon.language`, without modules and functions that print on the host. A release of
Triton has one of `barrier` and `thread_barrier`."""

LAYOUTS = _words("""
    AutoLayout BlockedLayout CoalescedLayout DistributedLinearLayout DotOperandLayout NVMMADistributedLayout
    NVMMASharedLayout PaddedSharedLayout SharedLinearLayout SliceLayout SwizzledSharedLayout
""")
"""Layouts of `triton.experimental.gluon.language`: values made of numbers and other layouts."""

GLUON_NVIDIA = {
    "ampere": _words("mma_v2"),
    "ampere.async_copy": _words("async_copy_global_to_shared commit_group mbarrier_arrive wait_group"),
    "ampere.mbarrier": _words("MBarrierLayout allocate_mbarrier arrive init invalidate wait"),
    "hopper": _words("""
        fence_async_shared mma_v2 warpgroup_mma warpgroup_mma_accumulator warpgroup_mma_init warpgroup_mma_wait
    """),
    "hopper.async_copy": _words("async_copy_global_to_shared commit_group mbarrier_arrive wait_group"),
    "hopper.cluster": _words("arrive wait"),
    "hopper.mbarrier": _words("""
        MBarrierLayout allocate_mbarrier arrive expect fence_init_release_cluster init invalidate sync_cluster_init wait
    """),
    "hopper.tma": _words("""
        async_copy_global_to_shared async_copy_shared_to_global async_load async_store make_tensor_descriptor store_wait
    """),
    "blackwell": _words("""
        TensorMemoryLayout allocate_tensor_memory fence_async_shared get_tmem_reg_layout mma_v2 tcgen05_commit
        tcgen05_copy tcgen05_mma tcgen05_mma_barrier_count tcgen05_mma_scaled
    """),
    "blackwell.mbarrier": _words("""
        MBarrierLayout allocate_mbarrier arrive expect fence_init_release_cluster init invalidate sync_cluster_init wait
    """),
    "blackwell.tma": _words("""
        async_copy_global_to_shared async_copy_shared_to_global async_gather async_load async_scatter async_store
        make_tensor_descriptor store_wait
    """),
}
"""Names of the modules of `triton.experimental.gluon.language.nvidia`, of Triton 3.6 to 3.9."""

ATTRIBUTES = _words("""
    T abs advance argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_max atomic_min
    atomic_or atomic_xchg atomic_xor block_shape block_type broadcast_to cast cdiv ceil cos cumprod cumsum dtype
    element_ty erf exp exp2 expand_dims flip floor gather get_default_for histogram index int_bitwidth is_bf16
    is_block is_bool is_const is_dtype is_floating is_fp16 is_fp32 is_fp64 is_fp8 is_fp8e4b15 is_fp8e4b8
    is_fp8e4nv is_fp8e5 is_fp8e5b16 is_int is_int1 is_int16 is_int32 is_int64 is_int8 is_int_signed
    is_int_unsigned is_ptr is_standard_floating is_uint16 is_uint32 is_uint64 is_uint8 is_void layout load log
    log2 logical_and logical_or max min nbytes nbytes_per_cta numel permute primitive_bitwidth ravel reduce
    reduce_or reshape rsqrt scalar scatter shape sigmoid sin slice softmax sort split sqrt sqrt_rn store sum to
    trans type value view with_identity_for xor_sum
""")
"""Attributes of tensors, shared memory, tensor descriptors, dtypes, layouts and constants inside a kernel."""

HOST = frozenset(f"math.{name}" for name in ("e", "pi", "inf", "nan", "log", "log2", "sqrt", "exp", "pow"))
"""Names of Python's `math` with which constants are computed."""

BUILTINS = frozenset({"range", "len", "min", "max", "float", "int", "abs", "bool"})
"""Python builtins from numbers to numbers."""
UNSPOKEN = frozenset({"getattr", "hasattr", "isinstance", "list", "print"})
"""Further builtins of Triton. Not even a variable may have such a name: where Triton does not find the variable, it
finds the builtin."""

LAYOUT_MAKERS = {name: f"language.{name}" for name in LAYOUTS} | {
    "TensorMemoryLayout": "language.nvidia.blackwell.TensorMemoryLayout"
}
"""Constructors of layouts by their names in a plan, as attributes of Gluon's module."""

AGGREGATES = frozenset({"triton.language.core._aggregate", f"{GLUON}.aggregate"})
"""Decorators of classes whose values are several values of a kernel; releases of Triton name it differently."""
FIELDS = frozenset(
    {
        *(f"triton.language.{name}" for name in ("constexpr", "tensor", "tensor_descriptor", "tuple")),
        *(f"{GLUON}.language.{name}" for name in ("constexpr", "shared_memory_descriptor", "tensor", "tuple")),
        f"{GLUON}.language.nvidia.hopper.tma.tensor_descriptor",
        *(
            f"{GLUON}.language.nvidia.blackwell.{name}"
            for name in ("tensor_memory_descriptor", "tma.tensor_descriptor")
        ),
    }
)
"""Types of their fields. Only annotations of fields may name those: a call of one would make a value of anything."""
CONSTEXPR_FUNCTIONS = frozenset({"triton.constexpr_function", f"{GLUON}.constexpr_function"})
"""Decorators of their constructors."""
OWN = "own_"
"""Prefix of their fields and methods in an exported module, unless the name is among `ATTRIBUTES`. No value of Triton
has an attribute that begins so: a field called `handle` gives no access to the handles of tensors."""

_LIBDEVICE = ("triton.language.extra.libdevice", "triton.language.extra.cuda.libdevice")
_NVIDIA = f"{GLUON}.language.nvidia"
MODULES = frozenset(
    {
        *("math", "torch", "triton", "triton.language", "triton.language.math", *_LIBDEVICE),
        *(GLUON, f"{GLUON}.language", _NVIDIA, *(f"{_NVIDIA}.{module}" for module in GLUON_NVIDIA)),
    }
)
"""Modules that an extracted function may name."""

WORDS = frozenset(
    {
        *(f"triton.language.{name}" for name in LANGUAGE),
        *(f"triton.language.math.{name}" for name in MATHEMATICS),
        *(f"{module}.{name}" for module in _LIBDEVICE for name in LIBDEVICE),
        *("triton.language.PropagateNan.ALL", "triton.language.PropagateNan.NONE"),
        *("triton.cdiv", "triton.next_power_of_2"),
        *(f"{GLUON}.language.{name}" for name in GLUON_LANGUAGE | LAYOUTS),
        *(f"{_NVIDIA}.{module}.{name}" for module, names in GLUON_NVIDIA.items() for name in names),
        *HOST,
    }
)
"""Full names that a name in a kernel may resolve to."""

DTYPES = (
    {
        "fp16": "float16",
        "bf16": "bfloat16",
        "fp32": "float32",
        "fp64": "float64",
        "fp8e4nv": "float8e4nv",
        "fp8e5": "float8e5",
    }
    | {f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
    | {"int1": "int1"}
)
"""Attributes of `triton.language` by the dtypes' own names, which plans use."""
