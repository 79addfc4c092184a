package e2e_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdSource starts rssource. $VARIABLE becomes its address, $VARIABLE_FOLDER the folder of its resources in a mirror.
func cmdSource(ts *testscript.TestScript, args []string) error {
	flags := append([]string{"--listen", "127.0.0.1:0", "--log-level", "error"}, args[1:]...)
	p, err := background(ts, args[0], "rssource", flags)
	if err != nil {
		return err
	}
	err = poll("rssource answers", func() (bool, error) {
		select {
		case <-p.ended:
			return false, fmt.Errorf("rssource ended:\n%s", p.err.String())
		default:
			return strings.Count(p.out.String(), "\n") == 2, nil
		}
	})
	base, _, _ := strings.Cut(p.out.String(), "\n")
	ts.Setenv(args[0], base)
	ts.Setenv(args[0]+"_FOLDER", hostFolder(base))
	return err
}

// served is a Source of hand-written documents.
type served struct {
	*httptest.Server
	asked atomic.Int64
}

// cmdServe serves a folder of documents as they are, but for http://SOURCE, which becomes the address. A file that is not
// there but with .STATUS after its name answers with that status.
func cmdServe(ts *testscript.TestScript, args []string) error {
	dir := ts.MkAbs(args[1])
	s := &served{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		file := filepath.Join(dir, filepath.FromSlash(path.Clean("/"+r.URL.Path)))
		if refusals, _ := filepath.Glob(file + ".[45]??"); len(refusals) == 1 {
			status, _ := strconv.Atoi(strings.TrimPrefix(filepath.Ext(refusals[0]), "."))
			w.WriteHeader(status)
			return
		}
		body, err := os.ReadFile(file)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		if strings.HasSuffix(file, ".xml") {
			body = bytes.ReplaceAll(body, []byte("http://SOURCE"), []byte(s.URL))
		}
		_, _ = w.Write(body)
	}))
	s.Start()
	worldOf(ts).served[args[0]] = s
	ts.Setenv(args[0], s.URL+"/")
	ts.Setenv(args[0]+"_FOLDER", hostFolder(s.URL))
	return nil
}

// cmdAsked insists on how many requests came since it was last called.
func cmdAsked(ts *testscript.TestScript, args []string) error {
	s := worldOf(ts).served[args[0]]
	if s == nil {
		return fmt.Errorf("%s is not served", args[0])
	}
	if got := strconv.FormatInt(s.asked.Swap(0), 10); got != args[1] {
		return fmt.Errorf("%s requests, want %s", got, args[1])
	}
	return nil
}

// cmdListed waits until the last entry of a path in the Change List is such a change.
func cmdListed(ts *testscript.TestScript, args []string) error {
	base := ts.Getenv(args[0])
	return poll("the Change List shows "+args[1]+" "+args[2], func() (bool, error) {
		capabilities, err := get(base + ".resourcesync/capabilitylist.xml")
		if err != nil {
			return false, err
		}
		at := regexp.MustCompile(`<loc>([^<]*/changelist/[^<]*)</loc>`).FindStringSubmatch(capabilities)
		if at == nil {
			return false, nil
		}
		list, err := get(at[1])
		if err != nil {
			return false, err
		}
		entry := regexp.MustCompile(`(?s)<url>\s*<loc>` + regexp.QuoteMeta(base+args[1]) + `</loc>.*?</url>`)
		all := entry.FindAllString(list, -1)
		return len(all) > 0 && strings.Contains(all[len(all)-1], `change="`+args[2]+`"`), nil
	})
}

// cmdAged waits until the lists of a Source are so old that their validators last: an answer given within two seconds of its
// Last-Modified is asked for again without a condition, and brings a body.
func cmdAged(ts *testscript.TestScript, args []string) error {
	const capabilities = ".resourcesync/capabilitylist.xml"
	base := ts.Getenv(args[0])
	return poll("the lists are of old", func() (bool, error) {
		body, err := get(base + capabilities)
		if err != nil {
			return false, err
		}
		lists := []string{base + capabilities}
		for _, loc := range regexp.MustCompile(`<loc>([^<]*)</loc>`).FindAllStringSubmatch(body, -1) {
			lists = append(lists, loc[1])
		}
		for _, list := range lists {
			resp, err := http.Head(list)
			if err != nil {
				return false, err
			}
			resp.Body.Close()
			date, err := http.ParseTime(resp.Header.Get("Date"))
			if err != nil {
				return false, err
			}
			last, err := http.ParseTime(resp.Header.Get("Last-Modified")) // which rssource leaves out for the first second
			if err != nil || date.Sub(last) < 2*time.Second {
				return false, nil
			}
		}
		return true, nil
	})
}

func get(url string) (string, error) {
	resp, err := http.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}
