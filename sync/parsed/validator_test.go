package parsed

import (
	"net/http"
	"testing"

	"resyncd/store"
)

// FuzzHTTPTime: the quick way says what net/http says, or leaves it to it.
func FuzzHTTPTime(f *testing.F) {
	for _, s := range []string{
		"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Thu, 29 Feb 2024 23:59:59 GMT",
		"Wed, 29 Feb 2023 00:00:00 GMT", "Sat, 31 Apr 2026 00:00:00 GMT", "Mon, 00 Jan 0000 24:60:60 GMT", "unM, 06 anF 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:60 GMT", "Sun, 06 Nov 9999 08:49:37 UTC", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, quick := fixdate(s)
		want, err := http.ParseTime(s)
		if quick && (err != nil || at != store.Micros(want.UnixMicro())) {
			t.Errorf("%q: %v, want %v, %v", s, at, want, err)
		}
		if all, ok := HTTPTime(s); ok != (err == nil) || ok && all != store.Micros(want.UnixMicro()) {
			t.Errorf("%q: %v %v, want %v, %v", s, all, ok, want, err)
		}
	})
}

func TestFixdate(t *testing.T) {
	t.Parallel()
	const s = "Sun, 06 Nov 1994 08:49:37 GMT"
	if at, ok := fixdate(s); !ok || at != 784111777e6 {
		t.Errorf("%q: %v %v", s, at, ok)
	}
}
