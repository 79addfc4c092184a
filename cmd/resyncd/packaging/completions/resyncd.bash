# bash completion for resyncd, which is asked what the word at the cursor can become; nothing: a file.
_resyncd() {
	local IFS=$'\n' cur=${COMP_WORDS[COMP_CWORD]}
	local before=("${COMP_WORDS[@]:0:COMP_CWORD}")
	[[ $cur == -* ]] && before+=(-)
	COMPREPLY=($(compgen -W "$("${before[@]}" --generate-bash-completion 2>/dev/null | cut -f 1)" -- "$cur"))
}
complete -o default -F _resyncd resyncd
