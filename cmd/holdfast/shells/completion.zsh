#compdef holdfast
# Completion of holdfast for zsh. For this shell, after compinit:
#   source <(holdfast completion zsh)
# For every one, in a folder of $fpath:
#   holdfast completion zsh > "${fpath[1]}/_holdfast"
_holdfast() {
	local line
	local -a lines found
	lines=("${(@f)$("${words[1]}" __complete "${(@)words[2,CURRENT-1]}" ".${words[CURRENT]}" 2>/dev/null)}")
	for line in "${lines[@]}"; do
		[[ -n $line ]] && found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
	done
	if (( $#found )); then
		_describe -V holdfast found
	else
		_files
	fi
}
if [[ ${funcstack[1]} == _holdfast ]]; then
	_holdfast "$@"
else
	compdef _holdfast holdfast
fi
