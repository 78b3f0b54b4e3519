# metrics.sh - what a metrics.jsonl says, and how far two series are apart. Source it.
# shellcheck shell=sh
metric() { # key file: its values, one a line, of the lines that have it
    sed -n "s/.*\"$1\": \([-0-9.e+]*\).*/\1/p" "$2"
}

# Largest relative difference of two columns of numbers; "inf" when they are not equally long.
worst() { # file file
    paste "$1" "$2" | awk 'NF != 2 { print "inf"; bad = 1; exit }
        { d = $1 - $2; d = d < 0 ? -d : d; s = $2 < 0 ? -$2 : $2; r = s > 0 ? d / s : d
          w = r > w ? r : w }
        END { if (!bad) printf "%.3g\n", w }'
}
