package dbfile

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

func linked(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return true
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return !ok || s.Nlink > 0
}
