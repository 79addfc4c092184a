package keymap

import "testing"

// TestURIOfKey: a key tells its URI only where no other one has it.
func TestURIOfKey(t *testing.T) {
	t.Parallel()
	origins := []string{"http://a.example:8080", "https://b.example", "http://b.example", "https://c.example"}
	for key, want := range map[string]string{
		"c.example/a/b.txt": "https://c.example/a/b.txt", "a.example_8080/%index": "http://a.example:8080/", "c.example/d/%index": "https://c.example/d/",
		"c.example/%z/a%qx=1": "https://c.example//a?x=1", "c.example/%C3%A9%20": "https://c.example/%C3%A9%20",
		"b.example/a": "", "d.example/a": "", "note.txt": "", "c.example": "", "c.example/a%3Ab": "", "c.example/%43ON": "",
		"c.example/a%h0123456789abcdef": "", "c.example/a%x01234567": "", "c.example/a%": "", "c.example/a b": "",
	} {
		if got := URIOf(origins, key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}
