# bash completion for resyncd; made by `resyncd completion bash`.
_resyncd() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} at=resyncd words= flags= i
	for ((i = 1; i < COMP_CWORD; i++)); do
		case "$at ${COMP_WORDS[i]}" in
		'resyncd sync'|'resyncd catch-up') at='resyncd sync' ;;
		'resyncd serve') at='resyncd serve' ;;
		'resyncd discover') at='resyncd discover' ;;
		'resyncd audit') at='resyncd audit' ;;
		'resyncd verify') at='resyncd verify' ;;
		'resyncd status') at='resyncd status' ;;
		'resyncd ls') at='resyncd ls' ;;
		'resyncd cat') at='resyncd cat' ;;
		'resyncd approve') at='resyncd approve' ;;
		'resyncd restore') at='resyncd restore' ;;
		'resyncd history') at='resyncd history' ;;
		'resyncd subscription') at='resyncd subscription' ;;
		'resyncd subscription list') at='resyncd subscription list' ;;
		'resyncd subscription renew') at='resyncd subscription renew' ;;
		'resyncd subscription cancel') at='resyncd subscription cancel' ;;
		'resyncd source') at='resyncd source' ;;
		'resyncd source pause') at='resyncd source pause' ;;
		'resyncd source resume') at='resyncd source resume' ;;
		'resyncd source forget') at='resyncd source forget' ;;
		'resyncd config') at='resyncd config' ;;
		'resyncd config check') at='resyncd config check' ;;
		'resyncd config print') at='resyncd config print' ;;
		'resyncd config init') at='resyncd config init' ;;
		'resyncd backup') at='resyncd backup' ;;
		'resyncd demo') at='resyncd demo' ;;
		'resyncd healthcheck') at='resyncd healthcheck' ;;
		'resyncd man') at='resyncd man' ;;
		'resyncd completion') at='resyncd completion' ;;
		'resyncd version') at='resyncd version' ;;
		'resyncd help'|'resyncd h') at='resyncd help' ;;
		esac
	done
	case $prev in
	--delete) COMPREPLY=($(compgen -W 'trash keep now' -- "$cur")); return ;;
	--log-format) COMPREPLY=($(compgen -W 'text json' -- "$cur")); return ;;
	--log-level) COMPREPLY=($(compgen -W 'debug info warn error' -- "$cur")); return ;;
	--concurrency|--config|--dir|--for|--from|--idle-timeout|--rate|--resources|--retry-for|--sets|--topic) COMPREPLY=($(compgen -f -- "$cur")); return ;;
	esac
	case $at in
	'resyncd') words='sync catch-up serve discover audit verify status ls cat approve restore history subscription source config backup demo healthcheck man completion version help h' flags='' ;;
	'resyncd sync') words='' flags='--dry-run --full --from --delete --sets --concurrency --retry-for --idle-timeout --json --config --log-level --log-format --quiet --help' ;;
	'resyncd serve') words='' flags='--config --log-level --log-format --quiet --help' ;;
	'resyncd discover') words='' flags='--json --config-snippet --config --log-level --log-format --quiet --help' ;;
	'resyncd audit') words='' flags='--repair --json --config --log-level --log-format --quiet --help' ;;
	'resyncd verify') words='' flags='--repair --json --config --log-level --log-format --quiet --help' ;;
	'resyncd status') words='' flags='--json --config --log-level --log-format --quiet --help' ;;
	'resyncd ls') words='' flags='--json --owed --held --refused --trash --config --log-level --log-format --quiet --help' ;;
	'resyncd cat') words='' flags='--config --log-level --log-format --quiet --help' ;;
	'resyncd approve') words='' flags='--reject --config --log-level --log-format --quiet --help' ;;
	'resyncd restore') words='' flags='--config --log-level --log-format --quiet --help' ;;
	'resyncd history') words='' flags='--json --config --log-level --log-format --quiet --help' ;;
	'resyncd subscription') words='list renew cancel' flags='--help' ;;
	'resyncd subscription list') words='' flags='--topic --json --config --log-level --log-format --quiet --help' ;;
	'resyncd subscription renew') words='' flags='--topic --config --log-level --log-format --quiet --help' ;;
	'resyncd subscription cancel') words='' flags='--topic --config --log-level --log-format --quiet --help' ;;
	'resyncd source') words='pause resume forget' flags='--help' ;;
	'resyncd source pause') words='' flags='--config --log-level --log-format --quiet --help' ;;
	'resyncd source resume') words='' flags='--config --log-level --log-format --quiet --help' ;;
	'resyncd source forget') words='' flags='--with-mirror --config --log-level --log-format --quiet --help' ;;
	'resyncd config') words='check print init' flags='--help' ;;
	'resyncd config check') words='' flags='--config --log-level --log-format --quiet --help' ;;
	'resyncd config print') words='' flags='--config --log-level --log-format --quiet --help' ;;
	'resyncd config init') words='' flags='--config --log-level --log-format --quiet --help' ;;
	'resyncd backup') words='' flags='--config --log-level --log-format --quiet --help' ;;
	'resyncd demo') words='' flags='--resources --rate --for --dir --config --log-level --log-format --quiet --help' ;;
	'resyncd healthcheck') words='' flags='--alive --config --log-level --log-format --quiet --help' ;;
	'resyncd man') words='' flags='--config --log-level --log-format --quiet --help' ;;
	'resyncd completion') words='bash zsh fish' flags='--config --log-level --log-format --quiet --help' ;;
	'resyncd version') words='' flags='--config --log-level --log-format --quiet --help' ;;
	'resyncd help') words='sync catch-up serve discover audit verify status ls cat approve restore history subscription source config backup demo healthcheck man completion version help h operate feeds push console layout service security contract performance testing faults' flags='--config --log-level --log-format --quiet --help' ;;
	esac
	case $cur in
	-*) COMPREPLY=($(compgen -W "$flags" -- "$cur")) ;;
	*) [[ $words ]] && COMPREPLY=($(compgen -W "$words" -- "$cur")) || COMPREPLY=($(compgen -f -- "$cur")) ;;
	esac
}
complete -o filenames -F _resyncd resyncd
