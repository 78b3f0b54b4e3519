# sennit.bash - completion for bash: commands, options and run files. Options are asked of the
# programs themselves, so that this file need not know them.
# shellcheck shell=bash

# Words that begin a usage line of --help behind the program's name.
_sennit_commands() {
    "$1" --help 2>/dev/null |
        sed -n "s/^\(usage:\)\{0,1\} *${1##*/} \([a-z][a-z-]*\)\( .*\)\{0,1\}$/\2/p" | sort -u
}

_sennit_options() { # program [command]
    "$@" --help 2>/dev/null | grep -oE -e '(^|[^-a-z])--[a-z][a-z-]*' | sed 's/^[^-]*//' | sort -u
}

# Names of the templates that ship: sites, models, machines.
_sennit_templates() { # program folder
    local file bin
    bin=$(dirname "$(command -v "$1")")
    for file in "$bin/../share/sennit/templates/$2"/*.yaml; do
        [ -e "$file" ] && basename "$file" .yaml
    done
}

_sennit() {
    local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} command='' commands
    COMPREPLY=()
    commands=$(_sennit_commands "$program")
    if [ "$COMP_CWORD" -gt 1 ] && grep -qxF -e "${COMP_WORDS[1]}" <<<"$commands"; then
        command=${COMP_WORDS[1]}
    fi
    case ${COMP_WORDS[COMP_CWORD - 1]} in
    --site)
        mapfile -t COMPREPLY < <(compgen -W "$(_sennit_templates "$program" sites)" -- "$word")
        return
        ;;
    esac
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_sennit_options "$program" ${command:+"$command"})" -- "$word")
        return
    fi
    mapfile -t COMPREPLY < <(
        [ "$COMP_CWORD" -gt 1 ] || compgen -W "$commands" -- "$word"
        compgen -f -- "$word"
    )
    compopt -o filenames 2>/dev/null
}

complete -F _sennit sennit-plan sennit-run sennit-train sennit-convert sennit-data
