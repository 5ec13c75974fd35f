"""AMD kernels: LLVM's assembly text is held against the rules, printed anew, assembled and linked.

text     the rules, and what the instructions say
hsaco    text to machine code
"""
