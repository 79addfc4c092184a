//go:build !linux

package source

import (
	"io/fs"
	"time"
)

// settleTime is the age from which the times of a file show its next change.
const settleTime = 2 * time.Second

func signatureOf(info fs.FileInfo) signature {
	return signature{
		size:     info.Size(),
		modified: info.ModTime().UnixNano(),
		young:    time.Since(info.ModTime()).Abs() < settleTime,
	}
}
