# count.awk - what a kernel's inner loop executes, from the text of `cuobjdump -sass`.
#
# usage: cuobjdump -sass FILE.o | awk -v wanted=PATTERN -f tests/sass/count.awk
#   One line for each function whose mangled name matches: name, instructions of the loop, of which
#   tensor products, asynchronous copies and taken branches; bytes that the loop spans; accesses to
#   local memory in the whole function.
#   The loop is the one with most tensor products. Of the ways from its head back to its head the one
#   is counted that has most products, then most copies, then fewest instructions: the turn that
#   loads the next tile and masks nothing.

function finish(  i, j, to, body, best, head, last)
{
    if (!n)
        return
    best = -1
    for (i = 0; i < n; i++) { # loops: branches backwards
        if (target[i] == "" || !(target[i] in index_of) || index_of[target[i]] > i)
            continue
        to = index_of[target[i]]
        body = 0
        for (j = to; j <= i; j++)
            body += product[j]
        if (body > best || (body == best && i - to > last - head)) {
            best = body
            head = to
            last = i
        }
    }
    most_products = most_copies = fewest = -1
    ways = 0
    if (best >= 0)
        walk(head, head, last, 0, 0, 0, 0)
    printf "%s %d %d %d %d %d %d\n", name, fewest, most_products, most_copies, taken_branches, (last - head + 1) * 16, local
}

# Every way from instruction i to a branch back to `head`.
function walk(i, head, last, count, products, copies, taken)
{
    for (;;) {
        if (i < head || i > last || ways > 100000)
            return
        count++
        products += product[i]
        copies += copy[i]
        if (op[i] ~ /^EXIT/ && sure[i])
            return
        if (target[i] != "") {
            if (target[i] == address[head]) {
                arrive(count, products, copies, taken + 1)
                if (sure[i])
                    return
            } else if (index_of[target[i]] > i) {
                walk(index_of[target[i]], head, last, count, products, copies, taken + 1)
                if (sure[i])
                    return
            } # other loops within: once
        }
        i++
    }
}

function arrive(count, products, copies, taken)
{
    ways++
    if (products < most_products || (products == most_products && copies < most_copies) || \
        (products == most_products && copies == most_copies && count >= fewest))
        return
    most_products = products
    most_copies = copies
    fewest = count
    taken_branches = taken
}

/Function :/ {
    finish()
    name = $NF
    n = local = 0
    split("", index_of)
    active = name ~ wanted
    next
}
active && /^[ \t]+\/\*[0-9a-f]+\*\/[ \t]+[^ \t\/]/ {
    line = $0
    sub(/^[ \t]+\/\*/, "", line)
    address[n] = line
    sub(/\*.*/, "", address[n])
    sub(/^0+/, "", address[n])
    sub(/^[^\/]*\/[ \t]+/, "", line)
    sure[n] = 1
    if (line ~ /^@/) {
        sure[n] = 0
        sub(/^@[^ \t]+[ \t]+/, "", line)
    }
    op[n] = line
    sub(/[ \t;].*/, "", op[n])
    product[n] = op[n] ~ /^(HMMA|HGMMA|IMMA|QGMMA)/
    copy[n] = op[n] ~ /^LDGSTS/
    local += op[n] ~ /^(LDL|STL)/
    target[n] = ""
    if (op[n] ~ /^(BRA|JMP)/ && match(line, /0x[0-9a-f]+/)) {
        target[n] = substr(line, RSTART + 2, RLENGTH - 2)
        if (line ~ /^[A-Z.]+[ \t]+!?U?P[0-9]/)
            sure[n] = 0
    }
    index_of[address[n]] = n
    n++
}
END {
    finish()
}
