# sennit: one file, readable in one sitting. `make help` lists the targets.
#
# Sources are found by folder: a new .c file needs no edit here. CUDA and oneDNN are used where
# they are found. Output goes to build/ (build/san with SAN=1).

BUILD   := build$(if $(SAN),/san)
PREFIX  ?= /usr/local
CC      ?= gcc
MPICC   ?= mpicc
ARCH    := $(shell uname -m)

WARN    := -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
OPT     ?= -O2 -g
SANFLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
comma   := ,
BASEFLAGS := -std=gnu11 -D_GNU_SOURCE -I. -MMD -MP $(WARN) $(OPT) $(SANFLAGS)

# --- libraries, each met in one source file -------------------------------------------------
MPI_CFLAGS  := $(filter-out -pthread,$(shell $(MPICC) --showme:compile 2>/dev/null))
MPI_LIBS    := $(shell $(MPICC) --showme:link 2>/dev/null)
HDF5_CFLAGS := $(shell pkg-config --cflags hdf5-serial 2>/dev/null || pkg-config --cflags hdf5 2>/dev/null)
HDF5_LIBS   := $(shell pkg-config --libs hdf5-serial 2>/dev/null || pkg-config --libs hdf5 2>/dev/null || echo -lhdf5)
YAML_LIBS   := $(shell pkg-config --libs yaml-0.1 2>/dev/null || echo -lyaml)
JSON_LIBS   := $(shell pkg-config --libs jansson 2>/dev/null || echo -ljansson)
BLAS_DIR    := $(firstword $(wildcard /usr/lib/*-linux-gnu/openblas-serial))
BLAS_LIBS   ?= $(if $(BLAS_DIR),$(BLAS_DIR)/libopenblas.a,-lopenblas)
DNNL        := $(if $(wildcard /usr/include/oneapi/dnnl/dnnl.h),1)

LIBS    := $(YAML_LIBS) $(JSON_LIBS) $(HDF5_LIBS) $(BLAS_LIBS) $(if $(DNNL),-ldnnl) -fopenmp -lpthread -lm -ldl

# --- sources ----------------------------------------------------------------------------------
LIB_SRC  := $(wildcard lib/*/*.c checkpoint/*.c slurm/*.c kernels/*.c)
ISA_SRC  := $(wildcard kernels/cpu/*.c)
# One object per instruction set; kernels/cpu.c picks at run time (BLIS's way).
ISAS     := $(if $(filter x86_64,$(ARCH)),generic avx2 avx512,generic)
ISA_generic :=
ISA_avx2    := -march=x86-64-v3
ISA_avx512  := -march=x86-64-v4 -mprefer-vector-width=512
KFLAGS   := -O3 -fopenmp -fno-math-errno -fno-trapping-math

LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/%.o) \
            $(foreach i,$(ISAS),$(ISA_SRC:kernels/cpu/%.c=$(BUILD)/kernels/cpu/$(i)/%.o))
LIB      := $(BUILD)/libsennit.a
BIN_SRC  := $(wildcard bin/sennit_*.c)
BINS     := $(patsubst bin/sennit_%.c,$(BUILD)/bin/sennit-%,$(BIN_SRC))

UNIT_SRC := $(wildcard tests/unit/test_*.c tests/parity/test_*.c)
UNIT     := $(UNIT_SRC:%.c=$(BUILD)/%)
MPIT_SRC := $(wildcard tests/mpi/test_*.c)
MPIT     := $(MPIT_SRC:%.c=$(BUILD)/%)
BENCH_SRC := $(wildcard tests/bench/bench_*.c)
BENCH    := $(BENCH_SRC:%.c=$(BUILD)/%)
FUZZ_SRC := $(wildcard tests/fuzz/fuzz_*.c)
FUZZ     := $(FUZZ_SRC:%.c=$(BUILD)/%)

all: $(BINS)

$(BUILD)/lib/run/comm_mpi.o: CPPFLAGS += $(MPI_CFLAGS)
$(BUILD)/checkpoint/%.o: CPPFLAGS += $(HDF5_CFLAGS)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(BASEFLAGS) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

define isa_rule
$(BUILD)/kernels/cpu/$(1)/%.o: kernels/cpu/%.c
	@mkdir -p $$(@D)
	$(CC) $(BASEFLAGS) $(KFLAGS) $(ISA_$(1)) -DSN_ISA=$(1) $(CFLAGS) -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(eval $(call isa_rule,$(i))))

$(BUILD)/kernels/cpu.o: CPPFLAGS += $(foreach i,$(ISAS),-DSN_HAVE_ISA_$(i)) $(if $(DNNL),-DSN_HAVE_DNNL)

$(LIB): $(LIB_OBJ)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/bin/sennit-train: LIBS += $(MPI_LIBS)
$(BUILD)/bin/sennit-%: $(BUILD)/bin/sennit_%.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/tests/mpi/%: LIBS += $(MPI_LIBS)
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(LIB)
	@mkdir -p $(@D)
	$(CC) $(SANFLAGS) -o $@ $^ $(LIBS)

.PHONY: all
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
