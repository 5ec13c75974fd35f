"""NVIDIA kernels: PTX is parsed, checked against the rules, printed anew and passed to ptxas.

tokens, cursor, statements, parser   text to `syntax.Module`
scope, instructions, flow, lint      the rules
constants                            module-scope tables move to the constant bank
canonical                            the module as text again
ptxas                                text to machine code
parameters, mix                      parameters and their uses, and the instruction mix
"""
