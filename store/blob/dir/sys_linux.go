package dir

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Linux calls that os.Root does not have: on two open folders, a sync of a whole file system, the times
// of an open file.

// rename moves a file between open folders, replacing what has the new name (but no folder).
func rename(_ *folder, from *folder, oldName string, to *folder, newName string) error {
	return onFolders(from, oldName, to, newName, "rename", unix.Renameat)
}

// renameNew moves anything between open folders and replaces nothing (fs.ErrExist).
func renameNew(_ *folder, from *folder, oldName string, to *folder, newName string) error {
	err := onFolders(from, oldName, to, newName, "rename",
		func(a int, b string, c int, d string) error { return unix.Renameat2(a, b, c, d, unix.RENAME_NOREPLACE) })
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	// A file system without the flag (some network ones): look, then move.
	if _, err := to.root.Lstat(newName); err == nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: os.ErrExist}
	}
	return onFolders(from, oldName, to, newName, "rename", unix.Renameat)
}

// link gives a regular file a second name; it replaces nothing and follows nothing.
func link(_ *folder, from *folder, oldName string, to *folder, newName string) error {
	return onFolders(from, oldName, to, newName, "link",
		func(a int, b string, c int, d string) error { return unix.Linkat(a, b, c, d, 0) })
}

// onFolders runs a call on two open folders.
func onFolders(from *folder, oldName string, to *folder, newName, op string,
	call func(int, string, int, string) error) error {
	a, err := from.handle()
	if err != nil {
		return err
	}
	b, err := to.handle()
	if err != nil {
		return err
	}
	switch err = uninterrupted(func() error { return call(int(a.Fd()), oldName, int(b.Fd()), newName) }); err {
	case nil:
		return nil
	case unix.EXDEV:
		return fmt.Errorf("another file system is mounted below the mirror root, which must be one: %w", err)
	default:
		return &os.LinkError{Op: op, Old: oldName, New: newName, Err: err}
	}
}

// removeFile removes anything but a folder.
func removeFile(f *folder, name string) error { return unlink(f, name, 0) }

// removeFolder removes an empty folder and nothing else, even if the name was taken over meanwhile.
func removeFolder(f *folder, name string) error { return unlink(f, name, unix.AT_REMOVEDIR) }

func unlink(f *folder, name string, flags int) error {
	h, err := f.handle()
	if err != nil {
		return err
	}
	err = uninterrupted(func() error { return unix.Unlinkat(int(h.Fd()), name, flags) })
	if err != nil {
		return &os.PathError{Op: "unlink", Path: name, Err: err}
	}
	return nil
}

// linked reports that a file has other names, which must not change with it.
func linked(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink > 1
}

// uninterrupted runs a call again when a signal interrupts it.
func uninterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// setModTime sets only the modification time, of the open file itself: futimens(3), which x/sys
// does not have. By its name the file would be looked up once more for each resource.
func (s *stage) setModTime() error {
	mtime, err := unix.TimeToTimespec(s.mtime)
	if err != nil {
		return err
	}
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, mtime}
	//nolint:gosec // as in x/sys
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, s.file.Fd(), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0)
	runtime.KeepAlive(s.file)
	if errno != 0 {
		return errno
	}
	return nil
}

// syncWhole makes everything written to the file system of an open folder durable.
func syncWhole(f *os.File) error { return unix.Syncfs(int(f.Fd())) }

// canSyncWhole reports whether syncWhole can be trusted: the kernel reports lost writes since 5.8,
// and on some file systems (FUSE) the call reaches nobody.
func canSyncWhole(f *os.File) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return false
	}
	const zfs, bcachefs = 0x2fc12fc1, 0xca451a4e
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
		unix.OVERLAYFS_SUPER_MAGIC, unix.TMPFS_MAGIC, zfs, bcachefs:
	default:
		return false
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false
	}
	major, rest, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errA := strconv.Atoi(major)
	b, errB := strconv.Atoi(strings.TrimRight(minor, "-+abcdefghijklmnopqrstuvwxyz"))
	return errA == nil && errB == nil && (a > 5 || a == 5 && b >= 8)
}

// freeSpace is what a user without privileges may still write.
func freeSpace(f *os.File) (bytes, inodes uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, 0, err
	}
	bytes, inodes = st.Bavail*uint64(st.Bsize), st.Ffree
	if st.Files == 0 { // btrfs and others make inodes on demand
		inodes = math.MaxUint64
	}
	return bytes, inodes, nil
}

// lockFile locks a file until this process ends. Without wait, held is false if another has the lock.
func lockFile(f *os.File, wait bool) (held bool, err error) {
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	switch err := uninterrupted(func() error { return unix.Flock(int(f.Fd()), how) }); err {
	case nil:
		return true, nil
	case unix.EWOULDBLOCK:
		return false, nil
	default:
		return false, err
	}
}
