package e2e_test

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs testdata/script. Beside testscript's own commands there are those of scriptCommands.
func TestScripts(t *testing.T) {
	t.Parallel()
	madeOf()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true, Cmds: scriptCommands(),
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each process of a -race test ends a second late
			w := &world{running: map[string]*process{}, trees: map[string]string{}, served: map[string]*served{}}
			e.Values[worldKey{}] = w
			e.Defer(w.end)
			return nil
		},
	})
}

type worldKey struct{}

// world is what one script has under way.
type world struct {
	running map[string]*process
	trees   map[string]string
	served  map[string]*served
}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

func (w *world) end() {
	for _, p := range w.running {
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	for _, s := range w.served {
		s.Close()
	}
}

// process is one in the background.
type process struct {
	cmd      *exec.Cmd
	out, err buffer
	ended    chan struct{}
}

func scriptCommands() map[string]func(*testscript.TestScript, bool, []string) {
	plain := func(form string, least int, work func(*testscript.TestScript, []string) error) func(*testscript.TestScript, bool, []string) {
		return func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) < least {
				ts.Fatalf("usage: %s", form)
			}
			ts.Check(work(ts, args))
		}
	}
	return map[string]func(*testscript.TestScript, bool, []string){
		"exits":     plain("exits CODE COMMAND ARGUMENT…", 2, cmdExits),
		"start":     plain("start NAME COMMAND ARGUMENT…", 2, cmdStart),
		"signal":    plain("signal NAME TERM|INT|HUP|KILL|STOP|CONT", 2, cmdSignal),
		"ended":     plain("ended NAME CODE", 2, cmdEnded),
		"source":    plain("source VARIABLE FLAG…", 2, cmdSource),
		"hub":       plain("hub VARIABLE FLAG…", 1, cmdHub),
		"says":      plain("says NAME EXPRESSION", 2, cmdSays),
		"until":     plain("until LINE PATH WANT COMMAND ARGUMENT…", 4, cmdUntil),
		"becomes":   plain("becomes FOLDER FOLDER", 2, cmdBecomes),
		"serve":     plain("serve VARIABLE FOLDER", 2, cmdServe),
		"asked":     plain("asked VARIABLE COUNT", 2, cmdAsked),
		"listed":    plain("listed VARIABLE PATH CHANGE", 3, cmdListed),
		"aged":      plain("aged VARIABLE", 1, cmdAged),
		"reaches":   plain("reaches FOLDER COUNT", 2, cmdReaches),
		"grows":     plain("grows FOLDER", 1, cmdGrows),
		"subst":     plain("subst FILE", 1, cmdSubst),
		"flip":      plain("flip FILE", 1, cmdFlip),
		"same":      plain("same FOLDER FOLDER", 2, cmdSame),
		"remember":  plain("remember FOLDER", 1, cmdRemember),
		"untouched": plain("untouched FOLDER", 1, cmdUntouched),
		"json":      plain("json LINE PATH WANT", 3, cmdJSON),
		"keys":      plain("keys LINE PATH KEY,…", 3, cmdKeys),
	}
}

// cmdExits runs a command and insists on its exit code.
func cmdExits(ts *testscript.TestScript, args []string) error {
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	got := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		return err
	}
	if got != want {
		return fmt.Errorf("exit code %d, want %d", got, want)
	}
	return nil
}

// background starts a process that ends with the script.
func background(ts *testscript.TestScript, name, command string, args []string) (*process, error) {
	w := worldOf(ts)
	if w.running[name] != nil {
		return nil, fmt.Errorf("%s runs already", name)
	}
	if !filepath.IsAbs(command) {
		found, err := exec.LookPath(command)
		if err != nil {
			return nil, err
		}
		command = found
	}
	p := &process{cmd: exec.Command(command, args...), ended: make(chan struct{})}
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME"), "GORACE=" + ts.Getenv("GORACE"), "TMPDIR=" + ts.Getenv("TMPDIR")}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	w.running[name] = p
	go func() {
		_ = p.cmd.Wait() // the exit code is asked for by ended
		close(p.ended)
	}()
	return p, nil
}

func cmdStart(ts *testscript.TestScript, args []string) error {
	_, err := background(ts, args[0], args[1], args[2:])
	return err
}

func cmdSignal(ts *testscript.TestScript, args []string) error {
	p := worldOf(ts).running[args[0]]
	sig := map[string]syscall.Signal{
		"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
	}[args[1]]
	if p == nil || sig == 0 {
		return fmt.Errorf("no process %s, or no signal %s", args[0], args[1])
	}
	return p.cmd.Process.Signal(sig)
}

// cmdEnded waits for a process and insists on its exit code, -1 if a signal ended it. What it wrote is stdout and stderr.
func cmdEnded(ts *testscript.TestScript, args []string) error {
	w := worldOf(ts)
	p := w.running[args[0]]
	if p == nil {
		return fmt.Errorf("no process %s", args[0])
	}
	select {
	case <-p.ended:
	case <-time.After(scriptWaits):
		return fmt.Errorf("%s still runs:\n%s\n%s", args[0], p.out.String(), p.err.String())
	}
	delete(w.running, args[0])
	fmt.Fprint(ts.Stdout(), p.out.String())
	fmt.Fprint(ts.Stderr(), p.err.String())
	if got := strconv.Itoa(p.cmd.ProcessState.ExitCode()); got != args[1] {
		return fmt.Errorf("%s ended with %s, want %s", args[0], got, args[1])
	}
	return nil
}

// scriptWaits is how long a script waits for what is to come about: far longer than that takes on a machine with other work too.
const scriptWaits = time.Minute

// poll asks again and again, until the answer is yes.
func poll(what string, ask func() (bool, error)) error {
	end := time.After(scriptWaits)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if yes, err := ask(); yes || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-end:
			return errors.New("waited in vain until " + what)
		}
	}
}

// hostFolder is the folder of a Source's resources in a mirror.
func hostFolder(base string) string {
	host, _, _ := strings.Cut(strings.TrimPrefix(base, "http://"), "/")
	return strings.ReplaceAll(host, ":", "_")
}
