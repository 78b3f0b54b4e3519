# Licensed under the Apache License 2.0, as sennit is.
#
# usage: spack repo add packaging/spack; spack dev-build sennit@main

from spack.package import *


class Sennit(MakefilePackage):
    """4D-parallel training of language models on Slurm clusters, from one YAML file, in C."""

    license("Apache-2.0")

    version("main")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi")  # Open MPI, MPICH and what is made from it; the Makefile asks the wrapper
    depends_on("hwloc@2:")
    depends_on("hdf5@1.10: ~mpi")
    depends_on("libyaml")
    depends_on("jansson")
    depends_on("xxhash@0.8:")

    @property
    def build_targets(self):
        return [
            "all",
            "CC={0}".format(spack_cc),
            "MPICC={0}".format(self.spec["mpi"].mpicc),
        ]

    def install(self, spec, prefix):
        make("install", "PREFIX={0}".format(prefix), *self.build_targets[1:])
