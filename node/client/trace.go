package client

import "strings"

// ValidTraceparent reports whether text is a traceparent of W3C Trace Context
// (https://www.w3.org/TR/trace-context/, section 3.2), such as
// 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01: a version, a trace
// id, the id of the span that is the parent, and flags, in lower-case
// hexadecimal digits. A version above 00 may say more after that.
func ValidTraceparent(text string) bool {
	const length = 55
	if len(text) < length || len(text) > 128 {
		return false
	}
	version, rest := text[:2], text[length:]
	for i := range length {
		c := text[i]
		switch dash := i == 2 || i == 35 || i == 52; {
		case dash && c != '-', !dash && !('0' <= c && c <= '9' || 'a' <= c && c <= 'f'):
			return false
		}
	}
	for i := range len(rest) {
		if rest[i] <= ' ' || rest[i] > '~' {
			return false
		}
	}
	return version != "ff" && (rest == "" || version != "00" && rest[0] == '-') &&
		strings.Trim(text[3:35], "0") != "" && strings.Trim(text[36:52], "0") != ""
}
