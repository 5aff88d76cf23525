# Completion of holdfast for fish. For this shell:
#   holdfast completion fish | source
# For every one:
#   holdfast completion fish > ~/.config/fish/completions/holdfast.fish
function __holdfast_complete
	set -l words (commandline -opc)
	set -l current (commandline -ct)
	set -l found ($words[1] __complete $words[2..-1] ".$current" 2>/dev/null)
	if set -q found[1]
		printf '%s\n' $found
	else
		__fish_complete_path "$current"
	end
end
complete -c holdfast -f -a '(__holdfast_complete)'
