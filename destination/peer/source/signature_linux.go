package source

import (
	"io/fs"
	"syscall"
	"time"
)

// settleTime is the age from which the times of a file show its next change.
const settleTime = time.Second

func signatureOf(info fs.FileInfo) signature {
	sig := signature{size: info.Size(), modified: info.ModTime().UnixNano()}
	changed := info.ModTime()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		changed = time.Unix(st.Ctim.Unix())
		sig.changed, sig.inode = changed.UnixNano(), st.Ino
	}
	sig.young = time.Since(changed).Abs() < settleTime
	return sig
}
