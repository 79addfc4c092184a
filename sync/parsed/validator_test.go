package parsed

import (
	"net/http"
	"testing"

	"resyncd/store"
)

// FuzzHTTPTime: an HTTP date is what net/http says, in any of its forms.
func FuzzHTTPTime(f *testing.F) {
	for _, s := range []string{
		"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Thu, 29 Feb 2024 23:59:59 GMT",
		"Wed, 29 Feb 2023 00:00:00 GMT", "Sat, 31 Apr 2026 00:00:00 GMT", "Mon, 00 Jan 0000 24:60:60 GMT", "unM, 06 anF 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:60 GMT", "Sun, 06 Nov 9999 08:49:37 UTC", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, err := http.ParseTime(s)
		if all, ok := HTTPTime(s); ok != (err == nil) || ok && all != store.Micros(want.UnixMicro()) {
			t.Errorf("%q: %v %v, want %v, %v", s, all, ok, want, err)
		}
	})
}

func TestHTTPTime(t *testing.T) {
	t.Parallel()
	const s = "Sun, 06 Nov 1994 08:49:37 GMT"
	if at, ok := HTTPTime(s); !ok || at != 784111777e6 {
		t.Errorf("%q: %v %v", s, at, ok)
	}
	if at, ok := HTTPTime("soon"); ok || at != store.NoTime {
		t.Errorf("soon: %v %v", at, ok)
	}
}
