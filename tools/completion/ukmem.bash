# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completes the words of ukmem(1) for bash: commands and options as the tool's own help lists them, the PIDs of
# processes that run on ukmem, and names of their caches.

# The commands that "ukmem help" lists.
_ukmem_commands()
{
	"$1" help 2>/dev/null | sed -n '/^Commands:/,$ s/^  \([a-z]\{1,\}\) .*/\1/p'
}

# The options of a command.
_ukmem_options()
{
	"$1" help "$2" 2>/dev/null |
		sed -n '/^Options:/,/^$/ s/^  \(-[^ ]*\).*/\1/p' | tr , '\n'
}

# The choices of an option whose help shows them in braces.
_ukmem_choices()
{
	"$1" help "$2" 2>/dev/null | sed -n "s/^  [^{]*$3 [^{]*{\([^}]*\)}.*/\1/p" | tr , '\n'
}

_ukmem_pids()
{
	"$1" ps --json 2>/dev/null | grep -o '"pid":[0-9]*' | cut -d: -f2
}

_ukmem_caches()
{
	"$1" slabinfo "$2" 2>/dev/null | awk 'NR > 2 { print $1 }'
}

_ukmem()
{
	local tool=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} pid='' word i words=''

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W "$(_ukmem_commands "$tool") --help --version" -- "$current")
		return
	fi
	case $previous in
	-o | --output)
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		return
		;;
	--by | --gauge)
		mapfile -t COMPREPLY < <(compgen -W "$(_ukmem_choices "$tool" "$command" "$previous")" -- "$current")
		return
		;;
	--command)
		mapfile -t COMPREPLY < <(compgen -c -- "$current")
		return
		;;
	--conf)
		mapfile -t COMPREPLY < <(compgen -S : -W "$("$tool" config 2>/dev/null |
			sed -n '/^key /,$ s/^\([a-z_]*\) .*/\1/p')" -- "$current")
		compopt -o nospace 2>/dev/null
		return
		;;
	--interval | -d | --count | --limit | --min-age | --listen | --sort | -s | --prefix)
		return
		;;
	esac
	# A program that is started completes its own words.
	for ((i = 2; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		case $word in
		--conf | --interval | --count | -c | --cache | --set) ((i++)) ;;
		-*) ;;
		*[!0-9]*)
			if [[ -z $pid && $command =~ ^(run|slabinfo|vmstat|zoneinfo|buddyinfo|slab)$ ]]; then
				if declare -F _command_offset >/dev/null; then
					_command_offset "$i"
				else
					mapfile -t COMPREPLY < <(compgen -f -- "$current")
				fi
				return
			fi
			;;
		*) pid=${pid:-$word} ;;
		esac
	done
	if [[ $current == -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$(_ukmem_options "$tool" "$command")" -- "$current")
		return
	fi
	case $command in
	help) words=$(_ukmem_commands "$tool") ;;
	run) mapfile -t COMPREPLY < <(compgen -c -- "$current") ;;
	config) mapfile -t COMPREPLY < <(compgen -c -- "$current") ;;
	attr) if [[ $pid ]]; then words=$(_ukmem_caches "$tool" "$pid"); else words=$(_ukmem_pids "$tool"); fi ;;
	slabinfo | vmstat | zoneinfo | buddyinfo | slab)
		if [[ -z $pid ]]; then
			mapfile -t COMPREPLY < <(compgen -W "$(_ukmem_pids "$tool")" -- "$current"
				[[ $current != [0-9]* ]] && compgen -c -- "$current")
			return
		fi
		;;
	ps | kmalloc | info) ;;
	*) [[ $pid ]] || words=$(_ukmem_pids "$tool") ;;
	esac
	[[ -z $words ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}

complete -F _ukmem ukmem
