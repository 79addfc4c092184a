package feed

import (
	"bytes"
	"strings"
)

// resume skips unreadable input up to a tag for which stop is true. The tag is read again. It
// returns false at the end of the document.
func (in *input) resume(stop func(end bool, local string) bool) bool {
	in.readLimit = 1<<63 - 1
	again := in.last == '<' // the decoder may have taken it without using it
	for {
		if !again {
			if b, err := in.ReadByte(); err != nil {
				return false
			} else if b != '<' {
				continue
			}
		}
		again = false
		tag := []byte{'<'}
		for len(tag) < 64 {
			b, err := in.ReadByte()
			if err != nil {
				return false
			}
			if b == '<' {
				again = true
				break
			}
			tag = append(tag, b)
			if strings.IndexByte("> \t\r\n/", b) < 0 || len(tag) == 2 {
				continue
			}
			name, end := strings.CutPrefix(string(tag[1:len(tag)-1]), "/")
			if _, local, ok := strings.Cut(name, ":"); ok {
				name = local
			}
			if stop(end, strings.ToLower(name)) {
				in.pending = append(tag, in.pending...)
				in.offset -= int64(len(tag))
				in.line -= bytes.Count(tag, []byte{'\n'})
				if in.state = inTag; tag[len(tag)-1] == '>' {
					in.state = inText
				}
				return true
			}
			break
		}
	}
}
