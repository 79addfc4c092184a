//go:build !linux

package source

import (
	"io/fs"
	"time"
)

// settleTime is how long ago a file must have been changed before its times can be trusted to show the next change.
const settleTime = 2 * time.Second

func signatureOf(info fs.FileInfo) signature {
	return signature{
		size:     info.Size(),
		modified: info.ModTime().UnixNano(),
		young:    time.Since(info.ModTime()).Abs() < settleTime,
	}
}
