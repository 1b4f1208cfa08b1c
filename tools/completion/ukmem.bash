# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completes the words of ukmem(1) for bash: commands, options and their values as the tool's own help lists them, the
# PIDs of processes that run on ukmem, and names of their caches.

# The commands of the tool, or those of a command (profile).
_ukmem_commands()
{
	"$@" --help 2>/dev/null | sed -n '/^Commands:/,$ s/^  \([a-z]\{1,\}\) .*/\1/p'
}

# Completes with those lines of standard input that begin with the current word. `compgen -W` would expand them.
_ukmem_among()
{
	local word
	COMPREPLY=()
	while IFS= read -r word; do
		[[ -z $word || $word != "$current"* ]] || COMPREPLY+=("$word")
	done
}

# Completes with names of files, which readline quotes for the command line.
_ukmem_files()
{
	mapfile -t COMPREPLY < <(compgen -f -- "$current")
	compopt -o filenames 2>/dev/null
}

# Completes with programs: those of PATH by their names, others by their paths.
_ukmem_programs()
{
	mapfile -t COMPREPLY < <(compgen -c -- "$current")
	[[ $current != */* ]] || compopt -o filenames 2>/dev/null
}

# The options of a command.
_ukmem_options()
{
	"$@" --help 2>/dev/null |
		sed -n '/^Options:/,/^$/ s/^  \(-[^ ]*\).*/\1/p' | tr , '\n'
}

# _ukmem_value OPTION TOOL COMMAND...: what stands behind an option in the help; nothing: it is a flag.
_ukmem_value()
{
	local option=$1
	shift
	[[ $option =~ ^-[-a-zA-Z]+$ ]] || return 0
	"$@" --help 2>/dev/null |
		sed -n "s/^  \(-.,\)\{0,1\}$option \([A-Z[][^ ]*\).*/\2/p; s/^  $option,--[a-z-]* \([A-Z[][^ ]*\).*/\1/p"
}

_ukmem_pids()
{
	"$1" ps --json 2>/dev/null | grep -o '"pid":[0-9]*' | cut -d: -f2
}

# The names of a process's caches that a shell takes as they are. A process may choose any names, and what is completed
# stands in the command line: "$(...)" would be run there.
_ukmem_caches()
{
	local name quoted
	"$1" slabinfo "$2" 2>/dev/null | awk 'NR > 2 && NF == 16 { print $1 }' | while IFS= read -r name; do
		printf -v quoted %q "$name"
		[[ $name != "$quoted" || $name == -* ]] || printf '%s\n' "$name"
	done
}

# The names of a cache's attributes.
_ukmem_attributes()
{
	"$1" attr "$2" "$3" 2>/dev/null | sed -n 's|^[^:]*/\([a-z_]*\): .*|\1|p'
}

# The keys that sort a table.
_ukmem_keys()
{
	"$@" --help 2>/dev/null | sed -n '/^Keys/,/^[a-z]/ s/^  \([a-z]\)  .*/\1/p' | sort -u
}

# _ukmem_complete_value VALUE PID TOOL COMMAND...: completes what stands behind an option.
_ukmem_complete_value()
{
	local value=$1 pid=$2 words
	shift 2
	case $value in
	*{*)
		words=${value#*\{}
		words=${words%%\}*}
		_ukmem_among <<<"${words//,/$'\n'}"
		;;
	FILE*) _ukmem_files ;;
	COMMAND*) _ukmem_programs ;;
	KEY:VALUE*)
		_ukmem_among < <("$1" config 2>/dev/null | sed -n '/^key /,$ s/^\([a-z_]*\) .*/\1:/p')
		compopt -o nospace 2>/dev/null
		;;
	KEY*) _ukmem_among < <(_ukmem_keys "$@") ;;
	CACHE*) [[ -z $pid ]] || _ukmem_among < <(_ukmem_caches "$1" "$pid") ;;
	esac
}

_ukmem()
{
	local tool=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} first=2 pid='' cache='' value word i words='' of

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_ukmem_among < <(_ukmem_commands "$tool" && printf '%s\n' --help --version)
		return
	fi
	of=("$tool" "$command")
	if [[ $command == profile ]]; then
		if ((COMP_CWORD == 2)); then
			_ukmem_among < <(_ukmem_commands "${of[@]}" && echo --help)
			return
		fi
		of+=("${COMP_WORDS[2]}")
		first=3
	fi
	# A program that is started completes its own words.
	for ((i = first; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		case $word in
		-*) [[ -z $(_ukmem_value "$word" "${of[@]}") ]] || ((i++)) ;;
		*[!0-9]*)
			if [[ -z $pid && $command =~ ^(run|slabinfo|vmstat|zoneinfo|buddyinfo|slab)$ ]]; then
				if declare -F _command_offset >/dev/null; then
					_command_offset "$i"
				else
					_ukmem_files
				fi
				return
			fi
			[[ -z $pid ]] || cache=${cache:-$word}
			;;
		*) pid=${pid:-$word} ;;
		esac
	done
	if [[ $previous == -* ]]; then
		value=$(_ukmem_value "$previous" "${of[@]}")
		if [[ $value ]]; then
			_ukmem_complete_value "$value" "$pid" "${of[@]}"
			return
		fi
	fi
	if [[ $current == -* ]]; then
		_ukmem_among < <(_ukmem_options "${of[@]}")
		return
	fi
	case $command in
	help)
		words=$(_ukmem_commands "$tool")
		[[ $previous != profile ]] || words=$(_ukmem_commands "$tool" profile)
		;;
	run | config)
		_ukmem_programs
		return
		;;
	decode)
		_ukmem_files
		return
		;;
	attr)
		if [[ -z $pid ]]; then
			words=$(_ukmem_pids "$tool")
		elif [[ -z $cache ]]; then
			words=$(_ukmem_caches "$tool" "$pid")
		else
			words=$(_ukmem_attributes "$tool" "$pid" "$cache")
		fi
		;;
	slabinfo | vmstat | zoneinfo | buddyinfo | slab)
		if [[ -z $pid ]]; then
			if [[ $current == */* ]]; then
				_ukmem_programs
			else
				_ukmem_among < <(_ukmem_pids "$tool"
					[[ $current != [0-9]* ]] && compgen -c -- "$current")
			fi
			return
		fi
		;;
	ps | kmalloc | info) ;;
	*) [[ $pid ]] || words=$(_ukmem_pids "$tool") ;;
	esac
	_ukmem_among <<<"$words"
}

complete -F _ukmem ukmem
