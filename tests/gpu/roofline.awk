# roofline.awk - times of operations beside the least that they can take: tables of "sennit-plan calibrate" (machine
# file) and "sennit-plan --operations", and ceilings (tests/gpu/bench_ceilings). Files in the order: ceilings, machine,
# operations. The least is the larger of bytes over a copy's rate and FLOPs over a large bf16 product's rate.
function shape(type, m, n, k) { return type " " m (n || k ? " x " n " x " k : "") }
FILENAME ~ /ceilings$/ {
    if ($1 == "copy_bytes_per_s") copy = $2
    if ($1 == "product_flops_per_s" && $2 > product) product = $2
    next
}
FILENAME ~ /machine$/ {
    if (!/\{op: .*seconds: /) next
    gsub(/[{},]/, "")
    split("", v)
    for (i = 2; i < NF; i += 2) v[$i] = $(i + 1)
    seconds[v["op:"], v["type:"], v["m:"] + 0, v["n:"] + 0, v["k:"] + 0] = v["seconds:"]
    next
}
/^#/ || $1 == "operation" { next }
{
    key = $1 SUBSEP $2 SUBSEP $3 SUBSEP $4 SUBSEP $5
    if (!(key in runs)) { order[++count] = key; label[key] = $10; what[key] = $1 " " shape($2, $3, $4, $5) }
    runs[key] += $6
    bytes[key] = $7 > bytes[key] ? $7 : bytes[key]
    flops[key] = $8 > flops[key] ? $8 : flops[key]
}
END {
    if (!copy || !product) exit 1
    for (i = 1; i <= count; i++) {
        key = order[i]
        if (!(key in seconds)) { unmeasured += runs[key]; continue }
        b = bytes[key] / copy; f = flops[key] / product
        least[key] = b > f ? b : f
        total[key] = runs[key] * seconds[key]
        whole += total[key]; floor += runs[key] * least[key]
        kept[++n] = key
    }
    for (i = 2; i <= n; i++) # few: insertion sort, longest first
        for (j = i; j > 1 && total[kept[j]] > total[kept[j - 1]]; j--) { t = kept[j]; kept[j] = kept[j - 1]; kept[j - 1] = t }
    printf "All measured operations: %.3f ms; at their rooflines (%.0f GB/s, %.1f TFLOP/s) %.3f ms.%s\n\n", whole * 1e3, copy / 1e9, product / 1e12, floor * 1e3, unmeasured ? " " unmeasured " runs were not measured." : ""
    print "| operation | for example | runs | us | least us | times least | ms a step |\n|---|---|---|---|---|---|---|"
    for (i = 1; i <= n && i <= 40; i++) {
        key = kept[i]
        printf "| %s | %s | %d | %.1f | %.1f | %.2f | %.3f |\n", what[key], label[key], runs[key], seconds[key] * 1e6, least[key] * 1e6, seconds[key] / least[key], total[key] * 1e3
    }
}
