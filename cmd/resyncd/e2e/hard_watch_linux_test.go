package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"resyncd/cmd/resyncd/internal/mirror"
)

// deed is a system call of a watched process that changes what lies on disk, and what of it. It has not happened yet.
type deed struct {
	kind string // write, sync, name, unname, create
	path string // of the file; for a name, the new one
}

// ofState tells whether it is the database's.
func (d deed) ofState() bool { return strings.HasPrefix(filepath.Base(d.path), mirror.StateFile) }

// failure is what a disk says where it cannot do that.
func (d deed) failure() unix.Errno {
	if d.kind == "write" || d.kind == "create" {
		return unix.ENOSPC
	}
	return unix.EIO
}

// ruling is what becomes of a deed: 0 lets it happen, an errno is what the process is told instead.
type ruling = unix.Errno

// die kills the process before the deed.
const die = ruling(1 << 20)

// watcher decides about every deed of a process that touches one of its roots, in one order for all threads. The process
// waits meanwhile, so a judge that does not return holds it still.
type watcher struct {
	proc  *os.Process
	roots []string
	judge func(deed) ruling
	fd    int
	done  chan struct{}
}

// seccomp's own records (linux/seccomp.h).
type (
	notice struct {
		id         uint64
		pid, flags uint32
		nr, arch   uint32
		ip         uint64
		args       [6]uint64
	}
	answer struct {
		id         uint64
		val        int64
		err, flags int32
	}
)

// watch starts a command so that judge decides about its deeds below roots. The command is the program under its other
// name, see watched. The test is skipped where the system does not allow that.
func watch(t *testing.T, cmd *exec.Cmd, roots []string, judge func(deed) ruling, start func(*exec.Cmd)) *watcher {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "watched")
	defer unix.Close(pair[0])
	cmd.ExtraFiles = []*os.File{theirs}
	start(cmd)
	_ = theirs.Close()
	oob := make([]byte, unix.CmsgSpace(4))
	n, oobn, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		t.Skipf("no system calls can be watched here (seccomp): %v", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	w := &watcher{proc: cmd.Process, roots: roots, judge: judge, fd: fds[0], done: make(chan struct{})}
	go w.run()
	t.Cleanup(func() { <-w.done }) // the process has ended by then
	return w
}

// run answers until the process is gone.
func (w *watcher) run() {
	defer close(w.done)
	defer unix.Close(w.fd)
	for {
		poll := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(poll, -1); err != nil && !errors.Is(err, unix.EINTR) || poll[0].Revents&unix.POLLHUP != 0 {
			return
		}
		if poll[0].Revents&unix.POLLIN == 0 {
			continue
		}
		var n notice
		if w.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)) != nil {
			continue // its thread died meanwhile
		}
		a := answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
		if d, ok := w.look(&n); ok {
			switch v := w.judge(d); v {
			case 0:
			case die:
				_ = w.proc.Kill()
				continue
			default:
				a.flags, a.err = 0, -int32(v)
			}
		}
		_ = w.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) // nobody waits for it any more if it fails
	}
}

// ioctl tries again after a signal of our own runtime: an answer that is not given is waited for for ever.
func (w *watcher) ioctl(what uint, arg unsafe.Pointer) error {
	for {
		switch _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(w.fd), uintptr(what), uintptr(arg)); e {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return e
		}
	}
}

// look finds out what a call is about; ok is false if that is none of ours.
func (w *watcher) look(n *notice) (d deed, ok bool) {
	c := watchedCalls()[n.nr]
	d.kind = c.kind
	at := "cwd"
	if c.fd >= 0 {
		at = fmt.Sprintf("fd/%d", int32(n.args[c.fd]))
	}
	if c.path < 0 || c.fd >= 0 && int32(n.args[c.fd]) != unix.AT_FDCWD {
		d.path, _ = os.Readlink(fmt.Sprintf("/proc/%d/%s", n.pid, at))
	} else {
		d.path, _ = os.Readlink(fmt.Sprintf("/proc/%d/cwd", n.pid))
	}
	if c.path >= 0 {
		name := memoryOf(n.pid, n.args[c.path])
		if filepath.IsAbs(name) {
			d.path = name
		} else {
			d.path = filepath.Join(d.path, name)
		}
	}
	return d, slices.ContainsFunc(w.roots, func(root string) bool { return under(d.path, root) })
}

func under(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// memoryOf reads a name that a thread gave to a call.
func memoryOf(pid uint32, at uint64) string {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return ""
	}
	defer f.Close()
	buf := make([]byte, unix.PathMax)
	n, _ := f.ReadAt(buf, int64(at)) // the page after it may not be there
	name, _, _ := bytes.Cut(buf[:n], []byte{0})
	return string(name)
}

// watchedCall says in which arguments of a call its file stands: as a descriptor, and as a path below that; -1: not there.
type watchedCall struct {
	kind     string
	fd, path int
	flags    int // argument that must hold O_CREAT, 0: any
}

func watchedCalls() map[uint32]watchedCall {
	calls := map[uint32]watchedCall{
		unix.SYS_WRITE: {"write", 0, -1, 0}, unix.SYS_WRITEV: {"write", 0, -1, 0},
		unix.SYS_PWRITE64: {"write", 0, -1, 0}, unix.SYS_PWRITEV: {"write", 0, -1, 0},
		unix.SYS_COPY_FILE_RANGE: {"write", 2, -1, 0}, unix.SYS_SENDFILE: {"write", 0, -1, 0},
		unix.SYS_FTRUNCATE: {"write", 0, -1, 0}, unix.SYS_FALLOCATE: {"write", 0, -1, 0},
		unix.SYS_FSYNC: {"sync", 0, -1, 0}, unix.SYS_FDATASYNC: {"sync", 0, -1, 0}, unix.SYS_SYNCFS: {"sync", 0, -1, 0},
		unix.SYS_RENAMEAT2: {"name", 2, 3, 0}, unix.SYS_LINKAT: {"name", 2, 3, 0},
		unix.SYS_UNLINKAT: {"unname", 0, 1, 0}, unix.SYS_MKDIRAT: {"create", 0, 1, 0}, unix.SYS_OPENAT: {"create", 0, 1, 2},
	}
	if runtime.GOARCH == "amd64" { // calls of old, by number because other systems do not have their names
		calls[264] = watchedCall{"name", 2, 3, 0}   // renameat
		calls[82] = watchedCall{"name", -1, 1, 0}   // rename
		calls[86] = watchedCall{"name", -1, 1, 0}   // link
		calls[84] = watchedCall{"unname", -1, 0, 0} // rmdir
		calls[87] = watchedCall{"unname", -1, 0, 0} // unlink
		calls[83] = watchedCall{"create", -1, 0, 0} // mkdir
		calls[2] = watchedCall{"create", -1, 0, 1}  // open
	}
	return calls
}

// counted lets so many deeds happen and does to the next one what how says; the rest happen.
type counted struct {
	nth  int64 // 0: none
	how  func(deed) ruling
	seen atomic.Int64
	hit  atomic.Pointer[deed]
	dead atomic.Bool // the process is to die of it
}

func (c *counted) judge(d deed) ruling {
	if c.seen.Add(1) != c.nth {
		return 0
	}
	r := c.how(d)
	c.dead.Store(r == die)
	c.hit.Store(&d)
	return r
}
