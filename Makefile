# sennit: one file, readable in one sitting. `make help` lists the targets.
#
# Sources are found by folder: a new .c file needs no edit here. Output goes to build/ (build/san with
# SAN=1). On a machine where something is missing, parsing this file says nothing: tools/deps does,
# with the command that helps.

.DEFAULT_GOAL := all
VERSION := 0.1.0
BUILD   := build$(if $(SAN),/san)
PREFIX  ?= /usr/local
MPICC   ?= mpicc
ARCH    := $(shell uname -m)
ifeq ($(origin CC),default)
CC      := gcc
endif

# As many commands at a time as there are processors, unless -j says otherwise, which make shows to recipes alone.
ifeq ($(MAKELEVEL)$(filter -j% --jobs%,$(shell tr '\0' ' ' </proc/$$PPID/cmdline)),0)
MAKEFLAGS += -j$(shell nproc)
endif

# A compiler without ccache, which makes the same.
maker = $(filter-out ccache %/ccache,$(1))
# A text as one word of a shell.
quoted = '$(subst ','\'',$(1))'
comma   := ,
WERROR  ?= -Werror
WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes $(WERROR)
OPT     ?= -O2 -g
SANFLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
BASEFLAGS := -std=gnu11 -D_GNU_SOURCE -I. -MMD -MP $(WARN) $(OPT) $(SANFLAGS)

# --- libraries, each met in one source file -------------------------------------------------
# MPI: what its compiler says of itself, or what MPI_CFLAGS and MPI_LIBS give. One that says nothing, as Cray's cc may,
# compiles and links what needs MPI.
MPI_GIVEN   := $(filter-out undefined,$(origin MPI_LIBS))
MPI_CFLAGS  ?= $(if $(MPI_GIVEN),,$(shell tests/mpi/flags compile $(MPICC)))
ifndef MPI_GIVEN
MPI_LIBS    := $(shell tests/mpi/flags link $(MPICC))
endif
MPI_CC      := $(if $(MPI_GIVEN)$(MPI_LIBS),$(CC),$(MPICC))
MPIRUN      ?= $(shell tests/mpi/flags launcher $(MPICC))
HDF5_CFLAGS := $(shell pkg-config --cflags hdf5-serial 2>/dev/null || pkg-config --cflags hdf5 2>/dev/null)
# The archive where there is one: Debian's shared library brings curl, and with it 30 libraries that
# every rank would open before it begins.
HDF5_SHARED := $(shell pkg-config --libs hdf5-serial 2>/dev/null || pkg-config --libs hdf5 2>/dev/null || echo -lhdf5)
HDF5_DIR    := $(patsubst -L%,%,$(firstword $(filter -L%,$(HDF5_SHARED))))
HDF5_A      := $(and $(wildcard $(HDF5_DIR)/libhdf5.settings),$(wildcard $(HDF5_DIR)/libhdf5.a))
HDF5_LIBS   ?= $(if $(HDF5_A),$(HDF5_A) $(filter -lsz -lz,$(shell sed -n 's/^ *Extra libraries: //p' $(HDF5_DIR)/libhdf5.settings)),$(HDF5_SHARED))
YAML_LIBS   := $(shell pkg-config --libs yaml-0.1 2>/dev/null || echo -lyaml)
HWLOC_LIBS  := $(shell pkg-config --libs hwloc 2>/dev/null || echo -lhwloc)
JSON_LIBS   := $(shell pkg-config --libs jansson 2>/dev/null || echo -ljansson)
# Optional, each by its header: without it a file *_none.c in its place says what is not here.
with_header  = $(if $(wildcard $(addsuffix /$(1),/usr/include /usr/include/$(ARCH)-linux-gnu /usr/local/include $(subst :, ,$(CPATH)))),$(2))
ZFP_LIBS    ?= $(call with_header,zfp.h,-lzfp)
PCRE2_LIBS  ?= $(call with_header,pcre2.h,-lpcre2-8)
UTF8_LIBS   ?= $(call with_header,utf8proc.h,-lutf8proc)
ZLIB_LIBS   ?= $(call with_header,zlib.h,-lz)
ZSTD_LIBS   ?= $(call with_header,zstd.h,-lzstd)
SNAPPY_LIBS ?= $(call with_header,snappy-c.h,-lsnappy)
NOT_HERE    := kernels/$(if $(ZFP_LIBS),zfp_none,zfp).c lib/token/$(if $(PCRE2_LIBS),regex_none,regex).c \
               lib/token/$(if $(UTF8_LIBS),unicode_none,unicode).c lib/texts/$(if $(ZLIB_LIBS),gzip_none,gzip).c lib/texts/$(if $(ZSTD_LIBS),zstd_none,zstd).c \
               lib/texts/$(if $(SNAPPY_LIBS),snappy_none,snappy).c
# Only a benchmark compares with OpenBLAS, and does without it.
BLAS_DIR    := $(firstword $(wildcard /usr/lib/*-linux-gnu/openblas-serial))
BLAS_CFLAGS ?= $(if $(BLAS_DIR),,$(shell pkg-config --cflags openblas 2>/dev/null))
BLAS_LIBS   ?= $(if $(BLAS_DIR),$(BLAS_DIR)/libopenblas.a,$(shell pkg-config --libs openblas 2>/dev/null))

# CUDA: found or left out. Objects of different lists of architectures lie apart.
CUDA     ?= $(firstword $(wildcard /usr/local/cuda) $(patsubst %/bin/nvcc,%,$(shell command -v nvcc 2>/dev/null)))
NVCC     := $(wildcard $(CUDA)/bin/nvcc)
CUDA_SRC := $(wildcard kernels/cuda/*.cu)
CUDA_ALL := $(if $(NVCC),$(filter 75 80 90 100 120,$(shell $(NVCC) --list-gpu-code 2>/dev/null | sed -n 's/^sm_//p')))
# Of the GPUs here; where there is none one that shows that it compiles, since each costs minutes.
CUDA_HERE := $(if $(NVCC),$(sort $(shell nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n 's/^\([0-9]*\)\.\([0-9]\) *$$/\1\2/p')))
CUDA_ARCH ?= $(or $(CUDA_HERE),90)
CUDA_OUT := $(BUILD)/cuda/$(subst $() ,-,$(strip $(CUDA_ARCH)))
# Each driver for CUDA 13 unpacks it: a fraction of the size, for a third of nvcc's time; not for what only shows that it compiles.
NVSMALL  := $(if $(and $(NVCC),$(CUDA_HERE)$(filter-out file,$(origin CUDA_ARCH))),$(shell $(NVCC) --version 2>/dev/null | sed -n 's/.*release \(1[3-9]\|[2-9][0-9]\)\..*/--compress-mode=size/p'))
NVFLAGS  := -O3 -std=c++17 -lineinfo $(NVSMALL) -I. -Xcompiler -fPIC,-Wall $(foreach a,$(CUDA_ARCH),-gencode arch=compute_$(a),code=sm_$(a)) \
            -gencode arch=compute_$(lastword $(CUDA_ARCH)),code=compute_$(lastword $(CUDA_ARCH))
# cuDNN for attention: plain C without its headers, so that the emulation and unit tests have it too.
CUDNN_C  := kernels/cuda/cudnn.c kernels/cuda/sdpa.c kernels/cuda/sdpa_graph.c
PLUGIN   := $(if $(SAN),,$(if $(NVCC),$(if $(CUDA_SRC),$(BUILD)/lib/sennit/libsennit_cuda.so)))

LIBS    := $(YAML_LIBS) $(JSON_LIBS) $(HWLOC_LIBS) $(HDF5_LIBS) $(ZFP_LIBS) $(PCRE2_LIBS) $(UTF8_LIBS) $(ZSTD_LIBS) $(ZLIB_LIBS) $(SNAPPY_LIBS) -fopenmp -lpthread -lm -ldl

# --- sources ----------------------------------------------------------------------------------
LIB_SRC  := $(filter-out $(NOT_HERE),$(wildcard lib/*/*.c checkpoint/*/*.c slurm/*/*.c kernels/*.c)) \
            $(foreach f,isa bulk,$(firstword $(wildcard kernels/$f/$(ARCH).c) kernels/$f/other.c))
BIN_SRC  := $(wildcard bin/sennit_*.c)
ISA_SRC  := $(wildcard kernels/cpu/*.c kernels/cpu/gemm/*.c)
# One object per instruction set; kernels/cpu.c picks at run time (BLIS's way).
ISAS_x86_64  := generic avx2 avx512
ISAS_ppc64le := generic power9
ISAS     := $(or $(ISAS_$(ARCH)),generic)
# Spelled out: gcc knows -march=x86-64-v3 and v4, which these are, from 11 on.
ISA_generic :=
ISA_avx2    := $(addprefix -m,cx16 sahf popcnt sse3 ssse3 sse4.1 sse4.2 avx avx2 bmi bmi2 f16c fma lzcnt movbe xsave)
ISA_avx512  := $(ISA_avx2) $(addprefix -mavx512,f bw cd dq vl) -mprefer-vector-width=512
ISA_power9  := -mcpu=power9
# Sets that multiply bf16: the files of products once more, with tiles of their own, beside the rest of another set.
# Left out where the compiler does not know them (gcc before 11).
BF16_ISAS_x86_64  := avx512bf16 amx
BF16_ISAS_aarch64 := armbf16
BF16_ISAS_ppc64le := power10
ISA_avx512bf16 := $(ISA_avx512) -mavx512bf16
ISA_amx     := $(ISA_avx512bf16) -mamx-tile -mamx-bf16
ISA_armbf16 := -march=armv8.2-a+bf16
ISA_power10 := -mcpu=power10
BF16_ISAS   := $(BF16_ISAS_$(ARCH))
BF16_ISAS   := $(if $(BF16_ISAS),$(shell $(CC) $(ISA_$(lastword $(BF16_ISAS))) -E -x c /dev/null >/dev/null 2>&1 && echo $(BF16_ISAS)))
REST_avx512bf16 := avx512
REST_amx    := avx512
REST_armbf16 := generic
REST_power10 := power9
# Tiles, in kernels/cpu: of fp32, and of bf16 (a model runs those of x86-64 where a processor lacks them: tests/isa/model).
MODEL_ISAS  := $(if $(filter x86_64,$(ARCH)),avx512bf16 amx)
TILES       := fp32/vector bf16/none
TILES_avx512bf16 := fp32/vector bf16/dot
TILES_amx   := fp32/vector bf16/amx
TILES_armbf16 := fp32/vector bf16/mmla
TILES_power10 := bf16/ger
# How many vector registers a tile may fill.
SET_FLAGS   = -DSN_ISA=$(1) -DSN_REST=$(or $(REST_$(1)),$(1)) \
              -DSN_REGISTERS_H='"$(firstword $(wildcard kernels/cpu/registers/$(ARCH).h) kernels/cpu/registers/other.h)"'
GEMM        := $(patsubst kernels/cpu/%.c,%,$(wildcard kernels/cpu/gemm/*.c))
PRODUCTS    := $(GEMM) expert_gemm attention attention_dx attention_product attention_bf16 attention_dx_bf16 bf16_pack table
KFLAGS   := -O3 -fopenmp -fno-math-errno -fno-trapping-math
# Streams of codecs, and factors, are the same bytes from every set: no sum is fused with a product.
$(foreach i,$(ISAS),$(eval $(BUILD)/kernels/cpu/$(i)/codec%.o $(BUILD)/kernels/cpu/$(i)/orthogonalise.o: KFLAGS += -ffp-contract=off))
# Before it gives out registers gcc would move a tile's loads up for Arm, and then lack registers for its sums.
TILE_ORDER := $(if $(filter aarch64,$(ARCH)),$(shell $(CC) -Werror -fno-schedule-insns -E -x c /dev/null >/dev/null 2>&1 && echo -fno-schedule-insns))
$(foreach i,$(ISAS) $(BF16_ISAS),$(eval $(BUILD)/kernels/cpu/$(i)/fp32/%.o $(BUILD)/kernels/cpu/$(i)/bf16/%.o: KFLAGS += $(TILE_ORDER)))

KERNEL_OBJ := $(foreach i,$(ISAS),$(ISA_SRC:kernels/cpu/%.c=$(BUILD)/kernels/cpu/$(i)/%.o) $(TILES:%=$(BUILD)/kernels/cpu/$(i)/%.o)) \
              $(foreach i,$(BF16_ISAS),$(patsubst %,$(BUILD)/kernels/cpu/$(i)/%.o,$(PRODUCTS) $(TILES_$(i))))
LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o) $(KERNEL_OBJ) \
            $(patsubst bin/%.c,$(BUILD)/programs/%.o,$(filter-out $(BIN_SRC) bin/mpi_main.c,$(wildcard bin/*.c bin/*/*.c)))
LIB      := $(BUILD)/libsennit.a
PROGRAMS := $(patsubst bin/sennit_%.c,$(BUILD)/bin/sennit-%,$(BIN_SRC))
# What ranks of sennit-plan and sennit-convert go on as: those start where no MPI is.
RANKS    := $(BUILD)/libexec/sennit/sennit-mpi
BINS     := $(PROGRAMS) $(RANKS)

all: $(BUILD)/mpi $(BINS) $(PLUGIN) ## Build every binary into build/bin (the default)
# What was built with another MPI is built again.
MPI_WORDS = $(call quoted,$(MPICC)) $(call quoted,$(MPIRUN)) $(call quoted,$(call maker,$(MPI_CC)) $(MPI_CFLAGS) $(MPI_LIBS))
$(BUILD)/mpi: $(if $(shell printf '%s\n' $(MPI_WORDS) | cmp -s - $(BUILD)/mpi || echo y),FORCE)
	@tests/mpi/record '$(BUILD)' $(MPI_WORDS) '$(MPI_GIVEN)$(MPI_LIBS)'
$(BUILD)/lib/comm/comm_mpi.o $(BUILD)/ub/lib/comm/comm_mpi.o: CPPFLAGS += $(MPI_CFLAGS)
$(BUILD)/lib/comm/comm_mpi.o $(BUILD)/ub/lib/comm/comm_mpi.o: COMPILER = $(MPI_CC)
$(BUILD)/lib/comm/comm_mpi.o $(BUILD)/ub/lib/comm/comm_mpi.o: $(BUILD)/mpi
$(BUILD)/checkpoint/%.o $(BUILD)/ub/checkpoint/%.o $(BUILD)/tests/unit/checkpoint/test_hdf5.o: CPPFLAGS += $(HDF5_CFLAGS)
$(BUILD)/checkpoint/store/uses.o $(BUILD)/checkpoint/io/numbers.o: CFLAGS += -O3 -fno-trapping-math # vectorises halves' widening and narrowing
$(BUILD)/tests/bench/blas/openblas.o: CPPFLAGS += $(BLAS_CFLAGS)
$(patsubst %,$(BUILD)/tests/bench/%.o,bench_gemm bench_forms bench_attention bench_peak peak/x86_64): CPPFLAGS += -fopenmp
$(BUILD)/programs/%.o $(BUILD)/ub/programs/%.o: CPPFLAGS += -DSN_VERSION='"$(VERSION)"'

# One short line per command; V=1 shows the commands themselves.
say = $(if $(V),,@echo '$(1) $(2)';)

COMPILER  = $(CC)
$(BUILD)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc,$@)$(COMPILER) $(BASEFLAGS) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(BUILD)/programs/%.o: bin/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc,$@)$(COMPILER) $(BASEFLAGS) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

define isa_rule
$(BUILD)/kernels/cpu/$(1)/%.o: kernels/cpu/%.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call say,cc,$$@)$(CC) $(BASEFLAGS) $$(KFLAGS) $(ISA_$(1)) $(call SET_FLAGS,$(1)) $(CFLAGS) -c $$< -o $$@
endef
$(foreach i,$(ISAS) $(BF16_ISAS),$(eval $(call isa_rule,$(i))))

$(BUILD)/kernels/cpu.o: CPPFLAGS += '-DSN_BF16_ISAS(X)=$(foreach i,$(BF16_ISAS),X($(i)))'
$(BUILD)/kernels/codec_cpu.o: CPPFLAGS += '-DSN_ISAS(X)=$(foreach i,$(ISAS),X($(i)))'

$(LIB): $(LIB_OBJ) $(BUILD)/objects
	@rm -f $@
	$(call say,ar,$@)ar rcs $@ $(LIB_OBJ)

define link
	@mkdir -p $(@D)
	$(call say,ld,$@)$(LINKER) $(SANFLAGS) -Wl,--as-needed $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)
endef
LINKER   = $(CC)
WITH_MPI := $(BUILD)/bin/sennit-train $(RANKS) $(BUILD)/oom/sennit-train $(BUILD)/ub/bin/sennit-train $(RANKS:$(BUILD)/%=$(BUILD)/ub/%) $(BUILD)/tests/mpi/% $(BUILD)/tests/bench/bench_allreduce \
            $(BUILD)/tests/bench/own/own $(BUILD)/tests/bench/pace/links
$(WITH_MPI): LIBS += $(MPI_LIBS)
$(WITH_MPI): LINKER = $(MPI_CC)

$(BUILD)/bin/sennit-%: $(BUILD)/programs/sennit_%.o $(LIB)
	$(link)
$(RANKS): $(BUILD)/programs/mpi_main.o $(LIB)
	$(link)

# Ranges for profilers: a header of the toolkit.
NVTX_C   := kernels/cuda/nvtx$(if $(wildcard $(CUDA)/include/nvtx3/nvToolsExt.h),,_none).c
# The plugin for CUDA, which uses its own runtime whatever the process has loaded: kernels by nvcc, the rest of it in C; NCCL where its header is.
NCCL_C   := $(if $(wildcard $(CUDA)/include/nccl.h),kernels/cuda/nccl.c,kernels/cuda/nccl_none.c)
CUDA_C   := kernels/cuda/plugin.c kernels/cuda/begin.c kernels/cuda/prove.c kernels/cuda/library.c kernels/cuda/blaslt.c kernels/cuda/nvml.c $(CUDNN_C) $(NCCL_C) $(NVTX_C)
CUDA_OBJ := $(CUDA_SRC:%.cu=$(CUDA_OUT)/%.cu.o) $(CUDA_C:%.c=$(CUDA_OUT)/%.o)
$(CUDA_OUT)/%.cu.o: %.cu $(CUDA_OUT)/flags
	@mkdir -p $(@D)
	$(call say,nvcc,$@)$(NVCC) $(NVFLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@
$(CUDA_OUT)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc,$@)$(CC) $(BASEFLAGS) -fPIC -isystem $(CUDA)/include -DSN_CUDA_ARCH='"$(CUDA_ARCH)"' $(CFLAGS) -c $< -o $@
$(CUDA_OUT)/libsennit_cuda.so: $(CUDA_OBJ)
	$(call say,ld,$@)$(NVCC) -shared -cudart static -o $@ $^ -L$(CUDA)/lib64 -L$(CUDA)/lib -Xlinker -z,defs,-Bsymbolic -ldl -lpthread \
	    -Xlinker -rpath=$(CUDA)/lib64:$(CUDA)/lib
# The one of these architectures, also where that of others was made later.
$(BUILD)/lib/sennit/libsennit_cuda.so: $(CUDA_OUT)/libsennit_cuda.so $(if $(shell cmp -s $(CUDA_OUT)/libsennit_cuda.so $(BUILD)/lib/sennit/libsennit_cuda.so || echo y),FORCE)
	@mkdir -p $(@D)
	@cp $< $@
FORCE:

# Warpgroup products belong to sm_90a alone; elsewhere these files are stubs that are not taken.
$(CUDA_OUT)/kernels/cuda/grouped_wgmma.cu.o $(patsubst %,$(CUDA_OUT)/%.o,$(wildcard kernels/cuda/attention_wgmma*.cu)): NVFLAGS := $(subst compute_90,compute_90a,$(subst sm_90,sm_90a,$(NVFLAGS)))
$(CUDA_OUT)/kernels/cuda/prove.cu.o: NVFLAGS := $(subst compute_90,compute_90a,$(subst sm_90,sm_90a,$(NVFLAGS)))

include tests/rules.mk

# What things are made with, and of: a file each, written anew when that changes, on which they depend.
differs = $(if $(shell printf '%s\n' $(call quoted,$(1)) | cmp -s - $(2) || echo y),FORCE)
define stamp
$(1): $$(call differs,$$($(2)),$(1))
	@mkdir -p $$(@D)
	@printf '%s\n' $$(call quoted,$$($(2))) >$$@
endef
FLAGS    := $(call maker,$(CC)) $(BASEFLAGS) $(CPPFLAGS) $(CFLAGS) $(KFLAGS) $(foreach i,$(ISAS) $(BF16_ISAS),$(ISA_$(i))) \
            $(HDF5_CFLAGS) $(LIBS) $(LDFLAGS) $(VERSION) $(notdir $(EMULCXX)) $(EMULFLAGS) $(UBFLAGS)
$(eval $(call stamp,$(BUILD)/flags,FLAGS))
$(eval $(call stamp,$(BUILD)/objects,LIB_OBJ))
$(eval $(call stamp,$(UB)/objects,UBOBJ))
NVSTAMP  := $(call maker,$(NVCC)) $(filter-out $(NVSMALL),$(NVFLAGS))
$(eval $(call stamp,$(CUDA_OUT)/flags,NVSTAMP))

# --- targets: each first looks for what is missing, then reads this file again, because what was
# installed a moment ago was not there when the variables above were set --------------------------
# The make within shares the pool of jobs (+); with -n nothing is installed.
again  = +@$(if $(findstring n,$(firstword -$(MAKEFLAGS))),:,tools/deps) && $(MAKE) --no-print-directory
runner = @BUILD=$(BUILD) CC='$(CC)' LIB_OBJ='$(LIB_OBJ)' $(if $(SAN),LIMIT=1200 )tools/rooted tools/run
helpers = @tools/deps check || echo 'make: tests that call these will fail by name; MAY_MISS="NAME..." skips those that call a NAME' >&2

demo: ## Train a small llama on real text for a few minutes and let it write
	$(again) all
	@BUILD=$(BUILD) templates/demo.sh

# Seconds in which a script has hung; sanitizers make a training run ten times as long.
SCRIPT := $(if $(SAN),3600,1200)
check: ## Every test that needs no GPU; as root also one on a real Slurm (SAN=1: under ASan and UBSan)
	$(helpers)
	$(again) run-check
check-quick: ## The tests that take less than two minutes
	$(helpers)
	$(again) run-check-quick
# @seconds where the runner's limit of 600 is too short. The longest first; behind -- those that run one at a time,
# beside which the others give way (tools/run).
run-check: $(BINS) $(UBBINS) $(UNIT) $(MPIT) $(FUZZ) $(CLITOOL) $(BENCH) $(EMULTEST) $(MODELTEST) $(EMULPTR) $(FAKE) $(BUILD)/tests/gpu/libfake_cudnn.so $(FAKECUDA) $(FAKENVTX) $(FAKENVML) $(BUILD)/tests/gpu/find_library $(BUILD)/tests/gpu/cudnn_plans $(GPUBENCH) $(PLUGIN)
	$(runner) $(filter $(LONG),$(EMULRUN) $(UNIT)) $(filter-out $(LONG),$(EMULRUN)) $(patsubst %,%@$(SCRIPT),$(filter-out $(ALONE),$(CLI))) $(STATIC) $(if $(SAN),,tests/isa/foreign.sh@1200) tests/gpu/sm70.sh@1800 $(call mpi_rows,0) $(filter-out $(LONG),$(UNIT)) $(MODELTEST) $(FUZZ) \
	    -- $(call mpi_rows,1) $(ALONE:=@$(SCRIPT))
run-check-quick: $(BINS) $(UNIT) $(FUZZ)
	$(runner) $(UNIT) $(FUZZ) $(STATIC)

cuda: ## The plugin for CUDA alone (CUDA_ARCH="80 90"); part of `make` where nvcc is
	@[ -n '$(NVCC)' ] || { echo 'make: no nvcc here (looked in /usr/local/cuda, CUDA= and PATH); the plugin needs it' >&2; exit 1; }
	$(again) $(PLUGIN)
check-cuda-emul: ## The CUDA kernels on the host, as every architecture and in other orders of threads: most of an hour
	$(again) run-cuda-emul
run-cuda-emul: $(EMULTEST)
	@ALL=1 BUILD=$(BUILD) CC='$(CC)' LIB_OBJ='$(LIB_OBJ)' tools/run tests/cuda_emul/run@7200
check-cuda-arch: ## Compile and link the plugin for every architecture that nvcc knows; skips aloud without nvcc
	@[ -n '$(NVCC)' ] || echo 'make: SKIP check-cuda-arch: no nvcc here'
	@for a in $(if $(CUDA_SRC),$(CUDA_ALL)); do $(MAKE) --no-print-directory CUDA_ARCH=$$a $(BUILD)/cuda/$$a/libsennit_cuda.so || exit 1; \
	    echo "ok - the plugin for sm_$$a"; done
check-sass: ## Count what attention's inner loops execute on sm_90 (tests/sass/check); skips aloud without nvcc or cuobjdump
	@[ -n '$(NVCC)' ] || echo 'make: SKIP check-sass: no nvcc here'
	@[ -z '$(NVCC)' ] || { $(MAKE) --no-print-directory CUDA_ARCH=90 $(patsubst %,$(BUILD)/cuda/90/kernels/cuda/%.cu.o,attention_wgmma attention_wgmma_dkv_bf16 attention_wgmma_dq attention_mma_dkv_bf16 attention_mma_dq) && \
	    tests/sass/check $(BUILD)/cuda/90/kernels/cuda; }
check-isa: ## Kernels for Arm and POWER: the unit tests in an emulator, most of an hour; skips aloud without the compilers or qemu
	@tools/deps isa || echo 'make: what needs these will be skipped' >&2
	@ALL=1 BUILD=$(BUILD) tools/run tests/isa/foreign.sh@7200
check-sm70: ## The CUDA sources for sm_70, with clang and CUDA 12 from wheels; skips aloud where those are not to be had
	@tools/deps cuda || echo 'make: what needs these will be skipped' >&2
	@FETCH=1 BUILD=$(BUILD) CC='$(CC)' tools/run tests/gpu/sm70.sh@1800
gpu-bundle: ## build/sennit-gpu.tar.gz: binaries, tests and libraries for a machine that has CUDA and nothing else
	$(again) CUDA_ARCH="80 90" run-bundle
GPUTEST  := $(if $(PLUGIN),$(OTHER:%=$(BUILD)/tests/gpu/%) $(GPUBENCH))
run-bundle: $(BINS) $(PLUGIN) $(GPUTEST) $(BYPTR) $(BUILD)/tests/unit/test_no_alloc $(BUILD)/tests/emul/test_kernels_cuda
	@BUILD=$(BUILD) VERSION=$(VERSION) tests/gpu/bundle
check-gpu: ## What needs a GPU, with a report (SECTIONS="correctness speed torch", OUT=build, BUDGET=540); says so where there is none
	$(again) run-gpu
SECTIONS ?= correctness
run-gpu: $(BINS) $(PLUGIN) $(GPUTEST) $(GPUBENCH) $(BYPTR) $(if $(PLUGIN),$(BUILD)/tests/emul/test_kernels_cuda)
	@BUILD=$(BUILD) tests/gpu/check $(SECTIONS)

lint: ## The rules of the house (docs/STYLE.md), each violation one line
	$(again) run-lint
run-lint: $(LIB)
	@CC='$(CC)' LIB_OBJ='$(LIB_OBJ)' tools/lint

check-docs: ## Every flag has its line in the man page; docs/RUNFILE.md matches the key table
	$(again) run-docs
run-docs: $(BINS)
	@BUILD=$(BUILD) tools/docs

# Programs that take every line of the matrix with ALL=1.
EQUIV := test_estimate test_exec_device test_meaning test_meaning_faults test_meaning_searched test_replay_layouts
check-equiv: ## Loss for loss: one rank against every grid
	$(again) run-equiv
run-equiv: $(BINS) $(addprefix $(BUILD)/tests/unit/,test_logits $(EQUIV))
	$(runner) -- $(addsuffix @3600,$(wildcard tests/equiv/*.sh))
	$(subst @BUILD,@STEPS=20 ALL=1 BUILD,$(runner)) -- $(addsuffix @3600,$(wildcard tests/cli/test_compress*.sh) tests/cli/test_kill.sh $(addprefix $(BUILD)/tests/unit/,$(EQUIV)))

check-cluster: ## As root: scenarios on a real Slurm of 8 nodes on this host (SCENARIOS="preempt faults")
	@tools/deps cluster && $(MAKE) --no-print-directory run-cluster
run-cluster: $(BINS)
	@BUILD=$(BUILD) tools/rooted tests/cluster/run $(SCENARIOS)

cluster-demo: ## As root: watch a job be preempted, shrunk and resumed on a Slurm on this host
	@tools/deps cluster && $(MAKE) --no-print-directory all
	@BUILD=$(BUILD) tools/rooted tests/cluster/demo

check-mpich: ## A part of the tests with MPICH, built in build/mpich; says so where there is none
	@tools/deps mpich && $(MAKE) --no-print-directory BUILD=build/mpich MPICC=mpicc.mpich run-mpich || \
	    { command -v mpicc.mpich >/dev/null && exit 1; echo 'make: SKIP check-mpich: no MPICH here (mpicc.mpich); with another name: make check MPICC=... BUILD=build/mpich' >&2; }
run-mpich: $(BINS) $(MPIT)
	$(runner) -- tests/mpi/run@1800 $(addprefix tests/cli/test_,train.sh@1200 exec_host.sh@1200 hang.sh@1200)

check-oom: ## The binaries with their n-th allocation failing, n = 1, 2, ...
	$(again) run-oom
run-oom: $(BINS) $(PROGRAMS:$(BUILD)/bin/%=$(BUILD)/oom/%)
	$(runner) tests/oom/run@1800

check-fuzz: ## With clang: 60 seconds of libFuzzer per target (FUZZ_SECONDS=60)
	$(again) run-fuzz
FUZZ_SECONDS ?= 60
# What reads files is compiled once more, with coverage; a target takes from the archive what it needs.
DEEP      := clang -std=gnu11 -D_GNU_SOURCE -I. -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined
DEEP_SRC  := $(filter-out $(NOT_HERE),$(wildcard $(patsubst %,lib/%/*.c,base config layout model program monitor verify machine cost memory sim mapping search report campaign study token chat texts) \
             lib/data/*.c lib/state/state.c checkpoint/*/*.c slurm/*/*.c kernels/codec.c kernels/zfp*.c kernels/cpu/codec*.c))
FUZZ_DEEP := $(patsubst tests/fuzz/%.c,build/deep/%,$(wildcard tests/fuzz/fuzz_*.c))
run-fuzz: $(FUZZ_DEEP)
	@BUILD=build/deep FUZZ_SECONDS=$(FUZZ_SECONDS) tests/fuzz/run $(notdir $^)
# Kernels of the plainest instruction set, alone; OpenMP's header and library are the compiler's that is always here.
build/deep/kernels/cpu/%.o: DEEP += $(call SET_FLAGS,generic) -idirafter $(dir $(shell $(CC) -print-file-name=include/omp.h))
build/deep/%.o: %.c
	@mkdir -p $(@D)
	$(call say,cc,$@)$(DEEP) -fsanitize=fuzzer-no-link -MMD -MP $(HDF5_CFLAGS) -c $< -o $@
build/deep/lib.a: $(DEEP_SRC:%.c=build/deep/%.o)
	@rm -f $@
	$(call say,ar,$@)ar rcs $@ $^
build/deep/fuzz_%: build/deep/tests/fuzz/fuzz_%.o build/deep/lib.a
	$(call say,ld,$@)$(DEEP) -fsanitize=fuzzer -Wl,--as-needed -o $@ $^ $(YAML_LIBS) $(JSON_LIBS) $(HDF5_LIBS) $(ZFP_LIBS) $(PCRE2_LIBS) $(UTF8_LIBS) $(ZSTD_LIBS) $(ZLIB_LIBS) $(SNAPPY_LIBS) $(shell $(CC) -print-file-name=libgomp.so) -lpthread -lm

bench: ## Time operations and whole steps against their limits, after checking them
	@tools/deps bench || echo 'make: products are compared with no other library' >&2
	$(again) run-bench
run-bench: $(BINS) $(BENCH)
	@for b in $(BENCH); do echo "== $$b"; $$b || exit 1; done

# What `make install` is told; the library is for whoever links it with pkg-config --static.
placed = BUILD='$(BUILD)' VERSION='$(VERSION)' LIBS='$(LIBS) $(MPI_LIBS)' PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' packaging/install
install: $(BINS) ## Install binaries, templates, man pages, completion, module file (PREFIX=/usr/local DESTDIR=; STRIP= keeps debug information)
	@$(placed)
uninstall: $(BINS) ## Take away what install puts there, with the same PREFIX and DESTDIR
	@$(placed) --remove
dist: ## Write build/sennit-VERSION.tar.gz of what is committed
	@mkdir -p build
	git archive --format=tar.gz --prefix=sennit-$(VERSION)/ -o build/sennit-$(VERSION).tar.gz HEAD

deps: ## Install what is missing (as root), or name the command that does; DEV=1 adds clang and such
	@tools/deps $(if $(DEV),dev)
info: ## What was found on this machine and what was not
	@tools/deps --info
	@echo 'compiler             $(CC), flags $(OPT) $(CFLAGS)'
	@echo 'BLAS to compare with $(or $(BLAS_LIBS),none)'
	@echo "MPI                  $(MPICC) ($$(tests/mpi/flags family $(MPICC))), started by $(or $(MPIRUN),srun)"
	@echo 'codec zfp           $(or $(ZFP_LIBS),left out: no zfp.h here)'
	@echo 'patterns of tokenizers $(or $(PCRE2_LIBS),left out: no pcre2.h here)'
	@echo 'classes of characters $(or $(UTF8_LIBS),left out: no utf8proc.h here)'
	@echo 'packed texts        .gz: $(or $(ZLIB_LIBS),left out: no zlib.h here), .zst: $(or $(ZSTD_LIBS),left out: no zstd.h here), Parquet by snappy: $(or $(SNAPPY_LIBS),left out: no snappy-c.h here)'
	@echo 'ranges (NVTX)       $(if $(NVCC),$(if $(filter %nvtx.c,$(NVTX_C)),in the plugin,left out: no nvtx3/nvToolsExt.h in $(CUDA)/include),no nvcc here)'
	@echo 'instruction sets     $(ISAS) $(BF16_ISAS) (chosen at run time)'

kernels: $(KERNELS) ## The kernels alone, for another architecture too (ARCH=aarch64 CC=aarch64-linux-gnu-gcc BUILD=build/aarch64 ZFP_LIBS=)

docs: all $(BUILD)/tests/unit/test_accounting ## Write the pages and tables that programs give anew
	$(BUILD)/bin/sennit-plan --help-keys=markdown > docs/RUNFILE.md
	$(BUILD)/bin/sennit-plan --help-keys=machines > docs/MACHINES.md
	$(BUILD)/bin/sennit-plan --help-keys=sites > docs/SITES.md
	$(BUILD)/bin/sennit-plan --help-keys=huggingface > docs/HUGGINGFACE.md
	BUILD=$(BUILD) tools/activations > docs/ACTIVATIONS.md
	BUILD=$(BUILD) tools/experts > $(BUILD)/EXPERTS.md && cp $(BUILD)/EXPERTS.md docs/EXPERTS.md
format: ## Format every C file with clang-format
	clang-format -i $$(find bin checkpoint kernels lib slurm tests -name '*.[ch]')
clean: ## Remove build/
	rm -rf build
help: ## This list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' Makefile

.PHONY: FORCE run-gpu cuda kernels check-isa check-sass check-cuda-emul run-cuda-emul check-cuda-arch check-sm70 gpu-bundle check-gpu run-bundle all demo check check-quick lint check-docs check-equiv check-cluster check-oom check-fuzz cluster-demo bench \
	install deps info docs format clean help run-check run-check-quick run-lint run-docs run-equiv run-cluster run-oom \
	run-fuzz run-bench
.SECONDARY:
-include $(shell find $(BUILD) $(if $(filter build,$(BUILD)),"(" -name san -o -name mpich -o -path build/foreign ")" -prune -o) -name '*.d' -print 2>/dev/null)
# The value of a variable, for scripts: make -s print-CC
print-%:
	@printf '%s\n' $(call quoted,$($*))
