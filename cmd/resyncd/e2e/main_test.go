package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// freePort lets the system choose a port of this machine.
const freePort = "127.0.0.1:0"

// TestMain builds the programs, once, as this binary was built, and puts them before all others of their names. The
// commands of testscript are this binary under another name: the program under a test's eye.
func TestMain(m *testing.M) {
	testscript.Main(built{m}, map[string]func(){"resyncd-watched": watched, "resyncd-watched-state": watchedState})
}

// built runs tests with the programs in the path. More run at a time than there are processors, unless the command says
// how many: most wait for daemons. With -race, as in CI, those compute.
type built struct{ tests *testing.M }

func (b built) Run() int {
	if os.Getenv("CI") == "" {
		_ = flag.Set("test.parallel", strconv.Itoa(max(4, runtime.GOMAXPROCS(0))))
	}
	if slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "-test.list") }) {
		return b.tests.Run() // nothing is run
	}
	folder, err := os.MkdirTemp("", "resyncd-e2e-")
	if err == nil {
		err = build(folder+string(filepath.Separator), "resyncd/cmd/resyncd", "resyncd/cmd/rssource", "resyncd/cmd/rshub")
	}
	if err == nil {
		err = os.Setenv("PATH", folder+string(filepath.ListSeparator)+os.Getenv("PATH"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "resyncd cannot be built:", err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	return b.tests.Run()
}

// build runs go build with the flags of this binary, so that what was compiled for it is not compiled again.
func build(to string, more ...string) error {
	args := []string{"build", "-buildvcs=false", "-o", to}
	for _, name := range []string{"-race", "-tags", "-gcflags"} {
		if value := flagOfBuild(name); value != "" {
			args = append(args, name+"="+value)
		}
	}
	if out, err := exec.Command("go", append(args, more...)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// flagOfBuild is the value of a flag by which this binary was built, "" for none.
func flagOfBuild(name string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == name {
				return s.Value
			}
		}
	}
	return ""
}

// madeOf is called by whatever begins a program. go test keeps verdicts by the files that tests read, and cannot know what
// programs are made of: it is shown the whole tree, so that a change of it wants a new verdict.
var madeOf = sync.OnceFunc(func() {
	_ = filepath.WalkDir("../../..", func(_ string, d fs.DirEntry, _ error) error {
		if d.Name() == ".git" && d.IsDir() {
			return fs.SkipDir
		}
		return nil // what cannot be read is not shown
	})
})

// ending is how a command ended: its exit code, and the most memory that it took, 0 where the system does not tell.
type ending struct {
	code int
	peak int64
}

// run carries out a command line in a process of its own. The end of ctx interrupts it.
func run(ctx context.Context, args, env []string, stdout, stderr io.Writer) (e ending, err error) {
	madeOf()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}, env...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		return e, err
	}
	over, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- peakOf(cmd.Process.Pid, over) }()
	err = cmd.Wait()
	close(over)
	e = ending{code: cmd.ProcessState.ExitCode(), peak: <-peak}
	if _, ok := errors.AsType[*exec.ExitError](err); ok || ctx.Err() != nil {
		err = nil
	}
	return e, err
}

// serving is a program until ctx ends; what it says goes to log, and how it ended comes at the end.
func serving(ctx context.Context, log *buffer, args, env []string) (ended chan ending) {
	ended = make(chan ending, 1)
	go func() {
		e, err := run(ctx, args, env, log, log)
		if err != nil {
			fmt.Fprintln(log, err)
		}
		ended <- e
	}()
	return ended
}

// buffer takes what a process writes while a test looks at it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
