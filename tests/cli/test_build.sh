#!/bin/sh
# test_build.sh - make builds what changed and nothing else: flags, version, a source that is gone.
# shellcheck disable=SC2154  # run sets rc and out
. tests/lib/tap.sh
need make

# As the make that runs the tests was called, without its pool of jobs, which has no place for us.
MAKEFLAGS=$(printf '%s' "${MAKEFLAGS:-}" | sed 's/ *--jobserver-[a-z]*=[^ ]*//g; s/ -j[0-9]*//g')
export MAKEFLAGS
would() { # what make would do with these variables, a line each
    run make -n V= all "$@"
    printf '%s\n' "$out"
}
sources=$(find lib checkpoint slurm bin -name '*.c' | wc -l)

run make -q all
is "what is built is not built again" "$rc$err" 0
ok "with another -O everything is" test "$(would OPT=-O1 | grep -c '^echo .cc ')" -gt "$sources"
ok "with another version, too" test "$(would VERSION=9.9 | grep -c '^echo .cc ')" -gt "$sources"
printf '#!/bin/sh\nexec "$@"\n' >"$tmp/ccache" # a stand-in: not every machine has it
chmod +x "$tmp/ccache"
is "with ccache before the compiler nothing is" "$(would CC="$tmp/ccache $(make -s print-CC)" | grep -c '^echo .cc ')" 0
all=$(make -s print-LIB_OBJ)
would LIB_OBJ="${all% *}" >"$tmp/fewer"
ok "where a source is gone, the archive is made anew" grep -q "^echo 'ar .*/libsennit.a'" "$tmp/fewer"
is "and no object" "$(grep -c '^echo .cc ' "$tmp/fewer")" 0
is "programs alone lie in bin" "$(find "$BUILD/bin" -type f ! -perm -u+x)" ''
tap_done
