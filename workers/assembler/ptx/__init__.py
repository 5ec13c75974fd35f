"""NVIDIA kernels: PTX is parsed, checked against the rules, printed anew and passed to ptxas.

tokens, parser                    text to `syntax.PtxModule`
scope, instructions, flow, lint   the rules
constants                         module-scope tables move to the constant bank
canonical                         the module as text again
ptxas                             text to machine code
parameters, mix                   parameters and their uses, and the instruction mix
"""
