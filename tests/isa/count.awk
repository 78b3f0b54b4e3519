# count.awk - what one step of a tile's inner loop executes, from the text of objdump (Arm, POWER).
#
# usage: aarch64-linux-gnu-objdump -d FILE.o | awk -v wanted=whole_tile -f tests/isa/count.awk
#   One line for the function of that name: products (multiply-adds of vectors, or of matrices), loads,
#   prefetches, copies from register to register, accesses to the stack, and all instructions.
#   The loop is the one with most products, and of those the shortest.

/^[0-9a-f]+ <.*>:$/ {
    on = $2 == "<" wanted ">:"
    if (on)
        n = 0
    next
}
on && /^ *[0-9a-f]+:\t/ {
    split($0, part, "\t")
    gsub(/[ :]/, "", part[1])
    text = $0
    sub(/^[^\t]*\t[^\t]*\t/, "", text)
    gsub(/\t/, " ", text)
    at[part[1]] = n
    line[n++] = text
}
function loop_from(i,   to) { # where the loop begins that line i ends, or -1
    if (line[i] !~ /^b/ || !match(line[i], /[0-9a-f]+ </))
        return -1
    to = substr(line[i], RSTART, RLENGTH - 2)
    return to in at && at[to] <= i ? at[to] : -1
}
function products(from, to,   i, sum) {
    for (i = from; i <= to; i++)
        sum += line[i] ~ /^(fmla|bfmmla|xvmadd|(dm)?xvf32ger|(dm)?xvbf16ger)/
    return sum + 0
}
END {
    most = 0
    for (i = 0; i < n; i++) {
        from = loop_from(i)
        if (from < 0)
            continue
        here = products(from, i)
        if (here > most || (here && here == most && i - from < last - first)) {
            most = here
            first = from
            last = i
        }
    }
    if (!most) {
        print wanted ": no loop with products"
        exit 1
    }
    for (i = first; i <= last; i++) {
        all++
        loads += line[i] ~ /^(ld|l[xfv]|l[bhw]z)/
        ahead += line[i] ~ /^(prfm|dcbt)/
        copies += line[i] ~ /^(xxmr|xxlor|mov +v|fmov)/
        stack += line[i] ~ /\[sp|\(r1\)/
    }
    printf "%s: %d products, %d loads, %d prefetches, %d copies, %d accesses to the stack, %d instructions\n",
        wanted, most, loads, ahead, copies, stack, all
}
