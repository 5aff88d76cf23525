# Completion of holdfast for PowerShell. For this shell:
#   holdfast completion powershell | Out-String | Invoke-Expression
# For every one, put that line into $PROFILE.
Register-ArgumentCompleter -Native -CommandName holdfast -ScriptBlock {
	param($wordToComplete, $commandAst, $cursorPosition)
	$words = @($commandAst.CommandElements |
		Where-Object { $_.Extent.EndOffset -lt $cursorPosition } |
		ForEach-Object { $_.Extent.Text })
	$command = $words[0]
	$before = @($words | Select-Object -Skip 1)
	& $command __complete @before ".$wordToComplete" 2>$null | ForEach-Object {
		$name, $text = $_ -split "`t", 2
		[System.Management.Automation.CompletionResult]::new($name, $name, 'ParameterValue', $text)
	}
}
