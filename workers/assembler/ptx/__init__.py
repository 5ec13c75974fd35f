"""NVIDIA kernels: PTX is parsed, held against the rules, printed anew and given to ptxas.

tokens, cursor, statements, parser   text to `syntax.Module`
scope, instructions, lint            the rules
constants                            module-scope tables move to the constant bank
canonical                            the module as text again
ptxas                                text to machine code
parameters, mix                      what the entry takes, its uses, and what the instructions say
"""
