package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestCauseOf: what is told of a failure, and what to do, goes by these words.
func TestCauseOf(t *testing.T) {
	t.Parallel()
	status := func(code int) error { return &Error{Op: "get", Status: code, Err: fmt.Errorf("answered %d", code)} }
	closed := httptest.NewServer(http.NotFoundHandler())
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	asked := func(url string) error {
		_, err := http.Get(url) //nolint:noctx // a test
		return &Error{Op: "get", Kind: classify(context.Background(), err).Kind, Err: err}
	}
	at := closed.URL
	closed.Close()
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"none":                {nil, ""},
		"no error of ours":    {errors.New("answered 404"), ""},
		"a status, wrapped":   {fmt.Errorf("read: %w", status(404)), "http-404"},
		"twice the same":      {errors.Join(status(401), status(401)), "http-401"},
		"two that differ":     {errors.Join(status(401), status(404)), ""},
		"a server, two ways":  {fmt.Errorf("a: %w; b: %w", status(502), status(503)), CauseServer},
		"one beside unknown":  {errors.Join(errors.New("x"), status(410)), "http-410"},
		"nothing listens":     {asked(at), CauseConnection},
		"a stranger's":        {asked(secure.URL), CauseCertificate},
		"a name without host": {asked("http://nowhere.invalid/"), CauseHost},
	} {
		if got := CauseOf(c.err); got != c.want {
			t.Errorf("%s: %q, want %q: %v", name, got, c.want, c.err)
		}
	}
}
