package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// browserPatience is how long a page may take to show something.
const browserPatience = 30 * time.Second

// browser is Chromium, looking at one scene. Screenshots go to the folder that RESYNCD_TEST_ARTIFACTS names.
type browser struct {
	*scene
	ctx       context.Context
	artifacts string
}

// newBrowser starts Chromium, or skips the test where there is none.
func newBrowser(t *testing.T) *browser {
	t.Helper()
	var program string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if at, err := exec.LookPath(name); err == nil {
			program = at
			break
		}
	}
	if program == "" {
		t.Skip("no chromium in PATH: the console is not tried in a browser")
	}
	b := &browser{artifacts: os.Getenv("RESYNCD_TEST_ARTIFACTS")}
	if b.artifacts == "" {
		b.artifacts = t.TempDir()
	} else if err := os.MkdirAll(b.artifacts, 0o777); err != nil {
		t.Fatal(err)
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.NoDefaultBrowserCheck, chromedp.WSURLReadTimeout(time.Minute),
	}
	for _, flag := range []string{"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage", "disable-extensions", "hide-scrollbars"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	b.ctx, _ = chromedp.NewContext(ctx)
	if err := chromedp.Do(b.ctx); err != nil { // it starts here, not within the time of a page
		t.Fatalf("start chromium: %v", err)
	}
	t.Cleanup(func() {
		if err := chromedp.Cancel(b.ctx); err != nil {
			t.Errorf("end chromium: %v", err)
		}
	})
	b.scene = newScene(t)
	return b
}

// tab is one page of the browser.
type tab struct {
	*browser
	t        *testing.T
	ctx      context.Context
	expected []string // what the browser may complain of
}

// tab opens one. When its test ends, the browser must not have complained, nor must the page have asked for anything from
// elsewhere.
func (b *browser) tab(t *testing.T, path string, width int64) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	p := &tab{browser: b, t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	said := chromedp.Console(ctx)
	t.Cleanup(func() {
		defer cancel()
		const last = "that was all"
		if elsewhere := eval[[]string](p, `performance.getEntriesByType('resource').map(e => e.name).filter(n => !n.startsWith(location.origin + '/'))`); len(elsewhere) > 0 {
			t.Errorf("the page asks elsewhere: %q", elsewhere)
		}
		eval[chromedp.Void](p, fmt.Sprintf(`console.info(%q)`, last))
		for m, err := range said {
			if err != nil || m.Text == last {
				break
			}
			if !p.expects(m.Text) {
				t.Errorf("the browser says: %s (%s)", m, m.URL)
			}
		}
	})
	p.widens(width)
	p.opens(path)
	return p
}

func (p *tab) expects(text string) bool {
	for _, e := range p.expected {
		if strings.Contains(text, e) {
			return true
		}
	}
	return false
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, browserPatience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.fails(err)
	}
}

// fails ends the test, with a picture of what the page showed.
func (p *tab) fails(err error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, browserPatience)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + '\n' + document.body.innerText`))
	if picture, serr := chromedp.Run(ctx, chromedp.FullScreenshot(100)); serr == nil {
		name := filepath.Join(p.artifacts, "failed-"+strings.ReplaceAll(p.t.Name(), "/", "-")+".png")
		_ = os.WriteFile(name, picture, 0o666)
	}
	p.t.Fatalf("%v; the page is\n%s", err, text)
}

func (p *tab) opens(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.console + path))
}

func (p *tab) widens(width int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, max(640, width*5/8)))
}

// paints chooses light or dark.
func (p *tab) paints(scheme string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// scripts allows them or not, from the next page on.
func (p *tab) scripts(on bool) {
	p.t.Helper()
	if _, err := chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on}); err != nil {
		p.t.Fatal(err)
	}
}

// clicks the first element of a CSS selector, once it is there.
func (p *tab) clicks(selector string) {
	p.t.Helper()
	p.until(`!!document.querySelector(` + quoted(selector) + `)`)
	p.do(chromedp.ScrollIntoView(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)))
}

// shows waits until the text of an element holds something.
func (p *tab) shows(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`(document.querySelector(%s)?.textContent ?? '').includes(%s)`, quoted(selector), quoted(text)))
}

// until waits for an expression to become true, on whatever page the tab is by then.
func (p *tab) until(expression string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, browserPatience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		// An error is the page going away, at most.
		if yes, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression)); err == nil && yes {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.fails(fmt.Errorf("waited in vain until %s", expression))
		}
	}
}

// eval is the value of an expression.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, browserPatience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.fails(fmt.Errorf("%s: %w", expression, err))
	}
	return v
}

// presses a key, such as \t.
func (p *tab) presses(key string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(key))
}

// types a text, into what has the focus.
func (p *tab) types(text string) { p.t.Helper(); p.presses(text) }

// quoted is text as JavaScript writes it.
func quoted(text string) string { return fmt.Sprintf("%q", text) }

// shot keeps a picture of the whole page.
func (p *tab) shot(name string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, browserPatience)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(filepath.Join(p.artifacts, name+".png"), picture, 0o666)
	}
	if err != nil {
		p.t.Errorf("screenshot of %s: %v", name, err)
	}
}

// TestBrowser tries the console in Chromium, against a living daemon. Its parts go one after another: each is the history
// of the next.
func TestBrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	for _, part := range []struct {
		name string
		try  func(*testing.T)
	}{
		{"overview", b.overview}, {"live", b.live}, {"filter", b.filter}, {"look", b.look}, {"keys", b.keys}, {"gap", b.gapOpensAndCloses},
		{"zoom", b.zoom}, {"without scripts", b.withoutScripts}, {"approve", b.approve}, {"reject", b.reject}, {"resume", b.resume},
		{"forged", b.forged},
	} {
		t.Run(part.name, part.try)
	}
}
