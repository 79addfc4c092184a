# fish completion for resyncd, which is asked what the word at the cursor can become; nothing: a file.
function __resyncd_offers
	set -l before (commandline -opc)[2..]
	string match -q -- '-*' (commandline -ct); and set -a before -
	set -l offers (resyncd $before --generate-bash-completion 2>/dev/null)
	if set -q offers[1]
		printf '%s\n' $offers
	else
		__fish_complete_path (commandline -ct)
	end
end
complete -c resyncd -f -a '(__resyncd_offers)'
