package e2e_test

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdHub starts rshub. $VARIABLE becomes its URL; a hub that is started again in a script goes on with its state.
func cmdHub(ts *testscript.TestScript, args []string) error {
	listen := "127.0.0.1:0"
	if before := ts.Getenv(args[0]); before != "" {
		listen = strings.TrimSuffix(strings.TrimPrefix(before, "http://"), "/")
	}
	flags := append([]string{"--listen", listen, "--state", ts.MkAbs(args[0] + ".hub"), "--allow", "127.0.0.0/8", "--log-level", "error"}, args[1:]...)
	p, err := background(ts, args[0], "rshub", flags)
	if err != nil {
		return err
	}
	err = poll("rshub answers", func() (bool, error) {
		select {
		case <-p.ended:
			return false, fmt.Errorf("rshub ended:\n%s", p.err.String())
		default:
			return strings.Contains(p.out.String(), "\n"), nil
		}
	})
	url, _, _ := strings.Cut(p.out.String(), "\n")
	ts.Setenv(args[0], url)
	return err
}

// cmdSays waits until a process has written something.
func cmdSays(ts *testscript.TestScript, args []string) error {
	p := worldOf(ts).running[args[0]]
	if p == nil {
		return fmt.Errorf("no process %s", args[0])
	}
	re, err := regexp.Compile("(?m)" + args[1])
	if err != nil {
		return err
	}
	written := func() string { return p.out.String() + p.err.String() }
	err = poll(args[0]+" says "+args[1], func() (bool, error) {
		select {
		case <-p.ended:
			if !re.MatchString(written()) {
				return false, errors.New("it has ended")
			}
		default:
		}
		return re.MatchString(written()), nil
	})
	if err != nil {
		err = fmt.Errorf("%w; it wrote:\n%s", err, written())
	}
	return err
}

// cmdUntil runs a command again and again, until a line of what it prints holds that value; WANT is as of json.
func cmdUntil(ts *testscript.TestScript, args []string) error {
	var last error
	err := poll(args[1]+" is "+args[2], func() (bool, error) {
		last = ts.Exec(args[3], args[4:]...)
		var exit *exec.ExitError
		if last != nil && !errors.As(last, &exit) {
			return false, last
		}
		last = cmdJSON(ts, args)
		return last == nil, nil
	})
	if err != nil {
		err = fmt.Errorf("%w\n%w\n%s", err, last, worldOf(ts).told())
	}
	return err
}

// cmdBecomes waits until a folder holds exactly what another one does.
func cmdBecomes(ts *testscript.TestScript, args []string) error {
	var last error
	err := poll(args[0]+" becomes "+args[1], func() (bool, error) {
		last = cmdSame(ts, args)
		return last == nil, nil
	})
	if err != nil {
		err = fmt.Errorf("%w\n%w\n%s", err, last, worldOf(ts).told())
	}
	return err
}

// told is the end of what each process that runs has logged.
func (w *world) told() string {
	var b strings.Builder
	for name, p := range w.running {
		text := p.err.String()
		fmt.Fprintf(&b, "%s logged:\n%s\n", name, text[max(0, len(text)-4000):])
	}
	return b.String()
}
