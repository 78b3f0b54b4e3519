# rules.mk - how tests are built: programs of each kind, the stand-ins that they load, kernels on the host. Read by the
# Makefile, whose variables and rules for objects it uses.

# The binaries once more, under UBSan alone, for tests/cli/test_undefined.sh: what is undefined shows there in every `make check`, and
# SAN=1 has the rest. They also count what they do (tests/ub/count.c), for tests/cli/test_linear.sh. Cheap: little is optimised, and
# kernels' loops, which SAN=1 checks, are the same objects.
UB       := $(BUILD)/ub
UBFLAGS  := -w -Og -g0 -DXXH_NO_INLINE_HINTS=1 -fsanitize=undefined,float-cast-overflow -fno-sanitize-recover=all -fsanitize-coverage=trace-pc
UBOBJ    := $(patsubst $(BUILD)/%,$(UB)/%,$(filter-out $(BUILD)/kernels/%,$(LIB_OBJ))) $(filter $(BUILD)/kernels/%,$(LIB_OBJ))
UBBINS   := $(if $(SAN),,$(BINS:$(BUILD)/%=$(UB)/%))

# Test programs are linked without information for debuggers, which is three quarters of their bytes and most of the linker's time:
# `make TESTLINK= build/tests/unit/test_X` keeps it, SAN=1 does.
TESTLINK ?= $(if $(SAN),,-Wl,-S)
$(BUILD)/tests/% $(UB)/%: LDFLAGS += $(TESTLINK)

# Sources lie in the folder of what they test, programs in one.
UNITS    := $(wildcard tests/unit/*/test_*.c)
UNIT     := $(patsubst %.c,$(BUILD)/tests/unit/%,$(notdir $(UNITS))) $(patsubst %.c,$(BUILD)/%,$(wildcard tests/parity/test_*.c))
MPIT     := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/mpi/test_*.c))
BENCH    := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/bench/bench_*.c))
FUZZ     := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
CLI      := $(wildcard tests/cli/*.sh)
CLITOOL  := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/cli/*.c))
# The CUDA kernels' sources as C++, run on the host by the kernels' unit tests (tests/cuda_emul).
EMULCXX  := $(firstword $(shell command -v g++ clang++ 2>/dev/null))
EMULSAN  := -fsanitize=alignment,bounds,shift,signed-integer-overflow,null -fno-sanitize-recover=all
EMULFLAGS := -std=gnu++17 -O2 -g1 -Itests/cuda_emul/include -I$(BUILD)/emul/src -I. -include tests/cuda_emul/emul.h -include tests/cuda_emul/mma.h -include tests/cuda_emul/wgmma.h -MMD -MP -Wall -Wextra \
             -Wno-unused-function -Wno-unknown-pragmas -U_FORTIFY_SOURCE -fno-strict-aliasing -fPIC $(EMULSAN)
EMULSRC  := $(patsubst %,$(BUILD)/emul/src/%,$(wildcard kernels/cuda/*.cu kernels/cuda/*.cuh tests/cuda_emul/own/*.cc))
# Who writes what to the shared memory that warpgroup products read: wgmma.cc has in place of TSan's library what its calls go to.
EMULWGMMA := $(shell grep -l 'wgmma.*\.cuh' kernels/cuda/*.cu tests/cuda_emul/own/*.cc)
EMULOBJ  := $(patsubst kernels/cuda/%.cu,$(BUILD)/emul/%.o,$(wildcard kernels/cuda/*.cu)) \
            $(patsubst tests/cuda_emul/%.cc,$(BUILD)/emul/emul_%.o,$(wildcard tests/cuda_emul/*.cc)) \
            $(patsubst %,$(BUILD)/emul/%.pic.o,cudnn sdpa sdpa_graph library)
OTHER    := $(patsubst tests/unit/kernels/%.c,%,$(wildcard $(addprefix tests/unit/kernels/,test_kernels_[demnoprsv]*.c test_attention*.c \
            test_gemm.c test_cross_entropy.c))) test_kernels_cuda test_codec_cuda
EMULTEST := $(if $(SAN),,$(if $(EMULCXX),$(OTHER:%=$(BUILD)/tests/emul/%) \
            $(patsubst tests/cuda_emul/own/%.cc,$(BUILD)/tests/emul/%,$(wildcard tests/cuda_emul/own/*.cc))))
# The products of sets that this machine may lack, on a model of their instructions (tests/isa/model).
MODELTEST := $(if $(SAN),,$(foreach i,$(MODEL_ISAS),$(addprefix $(BUILD)/tests/isa/$(i)/,test_gemm test_attention test_attention_parts)) \
             $(if $(MODEL_ISAS),$(if $(BF16_ISAS),$(BUILD)/tests/isa/test_model)))
GPUBENCH := $(BUILD)/tests/gpu/bench_codec $(BUILD)/tests/gpu/bench_ceilings
EMULPTR  := $(if $(EMULTEST),$(BUILD)/emul/libby_pointer.so)
# Each a program of the list, so that they share the cores with others; tests/cuda_emul/run says which take too long for that.
EMULRUN  := $(if $(EMULTEST),$(patsubst %,tests/cuda_emul/run$(comma)%@1800,$(filter-out test_attention_parts test_gemm test_kernels_cuda,$(notdir $(EMULTEST)))),$(if $(SAN),,tests/cuda_emul/run))
# Rows of tests/mpi/list, each a program of its own: $(call mpi_rows,1) are those that wait for silence, 0 the others.
mpi_rows  = $(if $(MPIT),$(shell awk '/^[^\#]/ && ($$4 == "alone") == $(1) { print "tests/mpi/run," $$1 "," $$2 }' tests/mpi/list))
STATIC   := $(if $(SAN),,tools/lint tools/docs)
# Begun first, so that at the end no core waits for another one's long program.
LONG     := tests/cuda_emul/run$(comma)test_attention@1800 $(addprefix $(BUILD)/tests/unit/test_,exec_device layouts meaning compress_layouts replay_layouts)
ALONE     = $(shell grep -l '^. Runs alone: ' $(CLI))

# The processor's kernels alone, and their unit tests, which need no library of others: what a compiler for another architecture
# builds and an emulator of it runs (tests/isa/foreign.sh).
KERNELS := $(BUILD)/libkernels.a
$(KERNELS): $(KERNEL_OBJ) $(patsubst %.c,$(BUILD)/%.o,$(filter kernels/%,$(LIB_SRC)) $(wildcard lib/base/*.c))
	@rm -f $@
	$(call say,ar,$@)ar rcs $@ $^
define link_alone
	@mkdir -p $(@D)
	$(call say,ld,$@)$(CC) -static -fopenmp $(LDFLAGS) -o $@ $^ -lm
endef
$(BUILD)/alone/%: $(BUILD)/tests/unit/kernels/%.o $(KERNELS)
	$(link_alone)
$(BUILD)/alone/%: $(BUILD)/tests/unit/codecs/%.o $(KERNELS)
	$(link_alone)
# In seconds: the test of GEMM on what GEMM is made of.
define alone_rules
$(BUILD)/kernels/cpu/$(1)/gemm_table.o: tests/isa/table.c
	@mkdir -p $$(@D)
	$$(call say,cc,$$@)$(CC) $(BASEFLAGS) -fopenmp $(ISA_$(1)) $(call SET_FLAGS,$(1)) $(CFLAGS) -c $$< -o $$@
$(BUILD)/alone/$(1)/test_gemm: $(BUILD)/other/test_gemm.o $(BUILD)/lib/base/rng.o $(patsubst %,$(BUILD)/kernels/cpu/$(1)/%.o,$(GEMM) \
    bf16_pack gemm_table $(or $(TILES_$(1)),$(TILES))) $(patsubst %,$(BUILD)/kernels/cpu/$(or $(REST_$(1)),$(1))/%.o,act colsum)
	@mkdir -p $$(@D)
	$$(call say,ld,$$@)$(CC) -static -fopenmp $$(LDFLAGS) -o $$@ $$^ -lm
endef
$(foreach i,$(ISAS) $(BF16_ISAS),$(eval $(call alone_rules,$(i))))

# What tests share; a test takes from it what it needs.
TESTLIB := $(BUILD)/tests/libtest.a
$(TESTLIB): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/lib/*.c))
	@rm -f $@
	$(call say,ar,$@)ar rcs $@ $^

$(BUILD)/tests/bench/own/own: LDFLAGS += -Wl,--wrap=sn_arena_map
$(BUILD)/tests/unit/test_data_bytes: LDFLAGS += -Wl,--wrap=pread -Wl,--wrap=nanosleep
$(BUILD)/tests/unit/test_fuse_norm: LDFLAGS += -Wl,--wrap=sn_pass_fuse_norms
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(TESTLIB) $(LIB)
	$(link)
define unit_rule
$(BUILD)/tests/unit/$(basename $(notdir $(1))): $(BUILD)/$(1:.c=.o) $(TESTLIB) $(LIB)
	$$(link)
endef
$(foreach f,$(UNITS),$(eval $(call unit_rule,$(f))))

# Does the real cuDNN take our graphs, for devices that are only described?
$(BUILD)/tests/gpu/cudnn_plans: $(BUILD)/tests/gpu/cudnn_plans.o $(patsubst %.c,$(BUILD)/%.o,$(CUDNN_C) kernels/cuda/library.c)
	$(link)
# With a stand-in for cuDNN that computes on the host.
$(BUILD)/tests/unit/test_sdpa: $(patsubst %.c,$(BUILD)/%.o,$(CUDNN_C) kernels/cuda/library.c) | $(BUILD)/tests/gpu/libfake_cudnn.so
$(BUILD)/tests/unit/test_sdpa: LDFLAGS += -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/../gpu/fake'
$(addprefix $(BUILD)/tests/,bench/published bench/baseline unit/test_published): \
    $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/bench/foreign/*.c))

$(BUILD)/tests/bench/bench_gemm: LIBS += $(BLAS_LIBS)
$(BUILD)/tests/bench/bench_gemm: $(BUILD)/tests/bench/blas/$(if $(BLAS_LIBS),openblas,none).o
$(addprefix $(BUILD)/tests/bench/bench_,gemm peak): $(BUILD)/tests/bench/peak/$(if $(filter x86_64,$(ARCH)),x86_64,other).o

# A device of host memory as a plugin, for tests of sennit-train.
FAKE     := $(BUILD)/tests/gpu/libfake_device.so
$(FAKE): tests/gpu/fake_plugin.c tests/lib/fake_device.c tests/lib/fake_channels.c tests/lib/fake_measure.c $(wildcard kernels/*.h) tests/lib/fake_device.h tests/lib/fake_device_inner.h
	@mkdir -p $(@D)
	$(call say,ld,$@)$(CC) $(filter-out -MMD -MP,$(BASEFLAGS)) $(CFLAGS) -fPIC -shared -o $@ $(filter %.c,$^) -lpthread

# The plugin for CUDA itself, on calls of CUDA that are done on host memory.
FAKECUDA := $(if $(CUDA_SRC),$(if $(wildcard $(CUDA)/include/cuda_runtime_api.h),$(BUILD)/tests/gpu/libfake_cuda.so))
FAKECC   := $(CC) $(filter-out -MMD -MP,$(BASEFLAGS)) $(CFLAGS) -isystem $(CUDA)/include -fPIC -shared -DSN_CUDA_ARCH='"$(CUDA_ARCH)"'
$(BUILD)/tests/gpu/libfake_cuda.so: $(CUDA_C) tests/gpu/fake_cudart.c $(wildcard kernels/cuda/*.h kernels/*.h) \
    | $(BUILD)/tests/gpu/libfake_blaslt.so $(BUILD)/tests/gpu/libfake_nccl.so $(BUILD)/tests/gpu/libfake_cudnn.so
	@mkdir -p $(@D)
	$(call say,ld,$@)$(FAKECC) -Dsn_device_plugin=real_plugin -c kernels/cuda/plugin.c -o $@.o
	@$(FAKECC) -Wl,-rpath,'$$ORIGIN/fake' -o $@ $@.o $(filter-out kernels/cuda/plugin.c,$(filter %.c,$^)) -ldl -lpthread
# The libraries that it opens, under the names that it looks for.
$(BUILD)/tests/gpu/libfake_blaslt.so: tests/gpu/fake_blaslt.c
	@mkdir -p $(@D)/fake
	$(call say,ld,$@)$(FAKECC) -o $@ $<
	@ln -sf ../$(@F) $(@D)/fake/libcublasLt.so.$(shell sed -n 's/^\#define CUBLAS_VER_MAJOR *//p' $(CUDA)/include/cublas_api.h 2>/dev/null)
$(BUILD)/tests/gpu/libfake_nccl.so: tests/gpu/fake_nccl.c
	@mkdir -p $(@D)/fake
	$(call say,ld,$@)$(FAKECC) -o $@ $<
	@ln -sf ../$(@F) $(@D)/fake/libnccl.so.2
$(BUILD)/tests/gpu/libfake_cudnn.so: tests/gpu/fake_cudnn.c tests/gpu/fake_cudnn_run.c $(if $(wildcard $(CUDA)/include/cudnn_graph.h),tests/gpu/cudnn_numbers.c) kernels/cuda/cudnn.h tests/gpu/fake_cudnn.h
	@mkdir -p $(@D)/fake
	$(call say,ld,$@)$(FAKECC) -ffp-contract=off -o $@ $(filter %.c,$^) -lm
	@ln -sf ../$(@F) $(@D)/fake/libcudnn.so.9
$(BUILD)/tests/gpu/find_library: $(BUILD)/tests/gpu/find_library.o $(BUILD)/kernels/cuda/library.o
	$(link)

# A tool that listens to the plugin's ranges.
FAKENVTX := $(if $(FAKECUDA),$(if $(filter %nvtx.c,$(NVTX_C)),$(BUILD)/tests/gpu/libfake_nvtx.so))
$(BUILD)/tests/gpu/libfake_nvtx.so: tests/gpu/fake_nvtx.c
	@mkdir -p $(@D)
	$(call say,ld,$@)$(FAKECC) -o $@ $<

# A driver's library that says what FAKE_NVML names.
FAKENVML := $(if $(FAKECUDA),$(BUILD)/tests/gpu/nvml/libnvidia-ml.so.1)
$(BUILD)/tests/gpu/nvml/libnvidia-ml.so.1: tests/gpu/fake_nvml.c
	@mkdir -p $(@D)
	$(call say,ld,$@)$(FAKECC) -o $@ $<

# A fuzz target replays its corpus when linked with replay.c; check-fuzz links it with libFuzzer.
$(BUILD)/tests/fuzz/fuzz_%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(LIB)
	$(link)

# The same unit tests on another table than the CPU's (tests/gpu/other_table.h).
$(EMULSRC): $(BUILD)/emul/src/%: % tests/cuda_emul/bounded
	@mkdir -p $(@D)
	@tests/cuda_emul/bounded $< > $@.new && mv $@.new $@
$(BUILD)/emul/%.o: $(BUILD)/emul/src/kernels/cuda/%.cu $(BUILD)/flags | $(EMULSRC)
	@mkdir -p $(@D)
	$(call say,c++,$@)$(EMULCXX) $(EMULFLAGS) -x c++ -c $< -o $@
$(BUILD)/emul/%.pic.o: kernels/cuda/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc,$@)$(CC) $(BASEFLAGS) -fPIC $(CFLAGS) -c $< -o $@
$(patsubst %.cu,$(BUILD)/emul/%.o,$(notdir $(filter %.cu,$(EMULWGMMA)))): EMULFLAGS += -fsanitize=thread
$(patsubst %.cc,$(BUILD)/own/%.o,$(notdir $(filter %.cc,$(EMULWGMMA)))): EMULFLAGS += -fsanitize=thread
# It checks what kernels name itself; its sums of products are most of what attention takes here.
$(BUILD)/emul/emul_wgmma.o: EMULFLAGS += -O3 -fno-sanitize=all
$(BUILD)/emul/emul_%.o: tests/cuda_emul/%.cc $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,c++,$@)$(EMULCXX) $(EMULFLAGS) -c $< -o $@
$(BUILD)/own/%.o: $(BUILD)/emul/src/tests/cuda_emul/own/%.cc $(BUILD)/flags | $(EMULSRC)
	@mkdir -p $(@D)
	$(call say,c++,$@)$(EMULCXX) $(EMULFLAGS) -c $< -o $@
$(BUILD)/other/%.o: tests/unit/kernels/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc,$@)$(CC) $(BASEFLAGS) -Dsn_ops_cpu=kt_other_ops -Dsn_cpu_table_generic=kt_other_table -Dsn_isa_list=kt_other_list $(CFLAGS) -c $< -o $@
$(BUILD)/tests/emul/test_cudnn: EMULSAN += -Wl,-rpath,'$$ORIGIN/../gpu/fake'
$(BUILD)/tests/emul/test_cudnn: | $(BUILD)/tests/gpu/libfake_cudnn.so
$(BUILD)/tests/emul/%: $(BUILD)/own/%.o $(EMULOBJ) $(BUILD)/lib/base/rng.o
	@mkdir -p $(@D)
	$(call say,ld,$@)$(EMULCXX) $(EMULSAN) -o $@ $^ -lm
$(BUILD)/tests/emul/%: $(BUILD)/other/%.o $(EMULOBJ) $(BUILD)/lib/base/rng.o
	@mkdir -p $(@D)
	$(call say,ld,$@)$(EMULCXX) $(EMULSAN) -o $@ $^ -lm
$(addprefix $(BUILD)/tests/emul/,test_kernels_cuda test_codec_cuda): $(BUILD)/tests/emul/%: $(BUILD)/tests/gpu/%.o $(EMULOBJ) $(LIB)
	@mkdir -p $(@D)
	$(call say,ld,$@)$(EMULCXX) $(EMULSAN) -Wl,--as-needed -o $@ $^ $(LIBS)
# And on the kernels of bf16 products, their very source compiled against a model of its instructions.
define model_rules
$(BUILD)/isa/$(1)/%.o: kernels/cpu/%.c
	@mkdir -p $$(@D)
	$$(call say,cc,$$@)$(CC) $(BASEFLAGS) -Wno-psabi -O2 -fopenmp -fno-math-errno -fno-trapping-math $(ISA_avx2) -Itests/isa/model $(call SET_FLAGS,$(1)) -USN_REST -DSN_REST=$(1) \
	    $(CFLAGS) -c $$< -o $$@
$(BUILD)/isa/$(1)/other_table.o: tests/isa/table.c
	@mkdir -p $$(@D)
	$$(call say,cc,$$@)$(CC) $(BASEFLAGS) -fopenmp -DSN_ISA=$(1) -DSN_REST=$(1) $(CFLAGS) -c $$< -o $$@
$(BUILD)/tests/isa/$(1)/%: $(BUILD)/other/%.o $(patsubst %,$(BUILD)/isa/$(1)/%.o,$(filter-out table,$(PRODUCTS)) act colsum $(TILES_$(1)) other_table) $(BUILD)/lib/base/rng.o
	@mkdir -p $$(@D)
	$$(call say,ld,$$@)$(CC) -fopenmp -o $$@ $$^ -lm
endef
$(foreach i,$(MODEL_ISAS),$(eval $(call model_rules,$(i))))
# And on a GPU, with the plugin's kernels: found from the test, in the bundle too.
# The operations for PyTorch's tensors (tests/gpu/torch): with the plugin, and with the emulated kernels.
BYPTR    := $(if $(PLUGIN),$(BUILD)/tests/gpu/libby_pointer.so)
$(BUILD)/tests/gpu/libby_pointer.so: tests/gpu/by_pointer.c $(PLUGIN) $(wildcard kernels/cuda/*.h kernels/*.h)
	@mkdir -p $(@D)
	$(call say,ld,$@)$(CC) $(filter-out -MMD -MP,$(BASEFLAGS)) $(CFLAGS) -isystem $(CUDA)/include -fPIC -shared -o $@ $< \
	    -L$(dir $(PLUGIN)) -l:$(notdir $(PLUGIN)) -Wl,-rpath,'$$ORIGIN/../../lib/sennit'
$(BUILD)/emul/libby_pointer.so: tests/gpu/by_pointer.c $(EMULOBJ) $(wildcard tests/cuda_emul/include/*.h kernels/cuda/*.h kernels/*.h)
	$(call say,ld,$@)$(CC) $(filter-out -MMD -MP,$(BASEFLAGS)) -Itests/cuda_emul/include $(CFLAGS) -fPIC -c $< -o $(@:.so=.o)
	@$(EMULCXX) $(EMULSAN) -shared -Wl,-Bsymbolic -o $@ $(@:.so=.o) $(EMULOBJ) -lm
define link_gpu
	@mkdir -p $(@D)
	$(call say,ld,$@)$(EMULCXX) -Wl,--as-needed -o $@ $(filter %.o,$^) $(filter %.a,$^) -L$(dir $(PLUGIN)) -l:$(notdir $(PLUGIN)) \
	    -Wl,-rpath,'$$ORIGIN/../../lib/sennit' -L$(CUDA)/lib64 -L$(CUDA)/lib -lcudart_static $(LIBS) -lrt
endef
$(addprefix $(BUILD)/tests/gpu/,test_kernels_cuda test_codec_cuda): $(BUILD)/tests/gpu/%: $(BUILD)/tests/gpu/%.o $(CUDA_OUT)/tests/gpu/table.cu.o $(PLUGIN) $(LIB)
	$(link_gpu)
$(BUILD)/tests/gpu/test_%: $(BUILD)/other/test_%.o $(CUDA_OUT)/tests/gpu/table.cu.o $(BUILD)/lib/base/rng.o $(PLUGIN)
	$(link_gpu)
$(UB)/%.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc,$@)$(COMPILER) $(BASEFLAGS) $(UBFLAGS) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(UB)/programs/%.o: bin/%.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,cc,$@)$(COMPILER) $(BASEFLAGS) $(UBFLAGS) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(UB)/libsennit.a: $(UBOBJ) $(UB)/objects
	@rm -f $@
	$(call say,ar,$@)ar rcs $@ $(UBOBJ)
$(UBBINS): LDFLAGS += -fsanitize=undefined
$(UB)/bin/sennit-%: $(UB)/programs/sennit_%.o $(BUILD)/tests/ub/count.o $(UB)/libsennit.a
	$(link)
$(RANKS:$(BUILD)/%=$(UB)/%): $(UB)/programs/mpi_main.o $(BUILD)/tests/ub/count.o $(UB)/libsennit.a
	$(link)

# Allocation failures: the binaries once more, with a hook that makes the n-th allocation fail.
$(BUILD)/oom/sennit-%: $(BUILD)/programs/sennit_%.o $(BUILD)/tests/oom/hook.o $(LIB)
	$(link)

