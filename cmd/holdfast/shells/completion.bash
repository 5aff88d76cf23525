# Completion of holdfast for bash. For this shell:
#   source <(holdfast completion bash)
# For every one, with the package bash-completion:
#   holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
_holdfast() {
	local line last=$COMP_CWORD
	COMPREPLY=()
	while IFS= read -r line; do
		COMPREPLY+=("${line%%$'\t'*}")
	done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:last-1}" ".${COMP_WORDS[last]}" 2>/dev/null)
}
complete -o bashdefault -o default -F _holdfast holdfast
