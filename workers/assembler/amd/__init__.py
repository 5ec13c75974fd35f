"""AMD kernels: LLVM's assembly text is checked against the rules, printed anew, assembled and linked.

text     the rules, and the instruction mix
hsaco    text to machine code
"""
