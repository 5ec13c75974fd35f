"""Pages of Nsight Compute, in the forms that its releases print with `--csv --print-units base`."""

RAW = """==PROF== Connected to process 4711 (/usr/bin/python3.12)
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",\
"dram__bytes_read.sum","dram__bytes_write.sum","gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",\
"gpu__time_duration.sum","launch__registers_per_thread","lts__t_sector_hit_rate.pct",\
"sm__warps_active.avg.pct_of_peak_sustained_active","smsp__inst_executed.sum",\
"smsp__pcsamp_warps_issue_stalled_barrier","smsp__pcsamp_warps_issue_stalled_barrier_not_issued",\
"smsp__pcsamp_warps_issue_stalled_long_scoreboard","smsp__pcsamp_warps_issue_stalled_selected"
"","","","","","","","","","","","byte","byte","%","ns","register/thread","%","%","inst","","","",""
"0","4711","python3.12","127.0.0.1","vectorized_elementwise_kernel","1","7","(128, 1, 1)","(64, 1, 1)","0","9.0",\
"1","1","1","1,000","16","1","1","1","1","1","1","1"
"1","4711","python3.12","127.0.0.1","kernel","1","13","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"67,108,992","66,904,192","89.25","47,104","32","n/a","93.5","12,345,678","250","200","750","100"
"2","4711","python3.12","127.0.0.1","kernel(float *)","1","13","(256, 1, 1)","(1024, 1, 1)","0","9.0",\
"128","256","1.5","2,048","20","50","20","640","0","0","0","0"
"""

SOURCE = """"Kernel Name","kernel"
"#","Address","Source","Warp Stall Sampling (All Samples)","Warp Stall Sampling (Not-issued Samples)","# Samples",\
"Instructions Executed","stall_barrier","stall_long_sb","stall_selected","stall_long_sb (Not Issued)"
"1","0x7f2a9d2f0f00","      LDC R1, c[0x0][0x28] ","2","1","2","8,192","0","1","9","1"
"2","0x7f2a9d2f0f10","@P0   LDG.E.128 R4, desc[UR4][R2.64] ","1,700","1500","1,700","8,192","0","1,600","3","1500"
"3","0x7f2a9d2f0f20","      BAR.SYNC.DEFER_BLOCKING 0x0 ","298","20","298","8,192","250","10","0","8"
"4","0x7f2a9d2f0f30","      BRA 0x7f2a9d2f0f30","0","0","0","0","0","0","0","0"
"Kernel Name","kernel"
"#","Address","Source","# Samples","Instructions Executed","stall_long_sb"
"1","0x7f2a9d2f1f00","      EXIT ","0","640","0"
"""

BOTH_SOURCES = """"File Path","/tmp/candidate.py"
"Function Name","kernel"
"Line No","Source","Address","Source","# Samples","Instructions Executed","smsp__pcsamp_warps_issue_stalled_wait"
"14","y = tl.exp(x)","-","-","12","64","7"
"","","0x123","MUFU.EX2 R3, R4","12","64","7"
"""

REFUSED = """==PROF== Connected to process 113001 (/usr/bin/python3.12)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target \
device 0. For instructions on enabling permissions and to get more information see \
https://developer.nvidia.com/ERR_NVGPUCTRPERM
==PROF== Disconnected from process 113001
==WARNING== No kernels were profiled.
"""
UNLOADED = """==PROF== Connected to process 5
==ERROR== Failed to initialize the profiler: LibraryNotLoaded
"""
