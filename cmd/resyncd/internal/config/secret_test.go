package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestSecretIsHidden renders a secret in every way we know of (P10).
func TestSecretIsHidden(t *testing.T) {
	t.Parallel()
	const text = "hunter2"
	cfg := Default()
	cfg.Sources = []Source{{Auth: Auth{Bearer: NewSecret(text), Header: map[string]Secret{"X-Key": NewSecret(text)}}}}
	s := cfg.Sources[0].Auth.Bearer
	inner := struct{ s Secret }{s} // unexported: fmt asks no method

	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		for _, v := range []any{s, &s, inner, &inner, cfg, *cfg, cfg.Sources} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	for _, h := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		slog.New(h).Info("x", "secret", s, "in", inner, "cfg", cfg, "group", slog.GroupValue(slog.Any("s", s)))
	}
	for _, marshal := range []func(any) ([]byte, error){json.Marshal, yaml.Marshal} {
		for _, v := range []any{s, cfg.Sources[0].Auth} {
			data, err := marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(data)
		}
	}
	if err := cfg.Print(&out); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), text) || strings.Contains(out.String(), fmt.Sprintf("%x", text)) {
		t.Errorf("the secret shows in:\n%s", out.String())
	}
	if !strings.Contains(out.String(), hidden) {
		t.Error("nothing was rendered at all")
	}
	if s.Reveal() != text || !s.IsSet() || (Secret{}).IsSet() || NewSecret("").IsSet() {
		t.Error("Reveal or IsSet is wrong")
	}
}

func TestSecretFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := write(t, dir, "token", "hunter2\r\n", 0o600)
	open := write(t, dir, "open", "pässword", 0o644)
	cfg := load(t, fmt.Sprintf(`
sources:
  - { name: a, url: "https://a.example/", auth: { bearer_file: %s, header: { X-Api-Key_file: %s, X-Plain: hunter3 } } }
  - { name: b, url: "https://b.example/", auth: { basic_user: me, basic_password_file: %s } }
`, token, token, open))
	a, b := cfg.Sources[0].Auth, cfg.Sources[1].Auth
	if a.Bearer.Reveal() != "hunter2" || a.Header["X-Api-Key"].Reveal() != "hunter2" || a.Header["X-Plain"].Reveal() != "hunter3" || len(a.Header) != 2 {
		t.Errorf("a: %q, %q", a.Bearer.Reveal(), a.Header)
	}
	if b.BasicPassword.Reveal() != "pässword" {
		t.Errorf("b: %q", b.BasicPassword.Reveal())
	}
	if len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0], open) || !strings.Contains(cfg.Warnings[0], "0644") {
		t.Errorf("warnings: %q", cfg.Warnings)
	}
}

func TestInlineSecretInOpenFile(t *testing.T) {
	t.Parallel()
	path := write(t, t.TempDir(), "c.yaml", "sources: [{ name: a, url: 'https://a.example/', auth: { bearer: hunter2 } }]\n", 0o644)
	cfg, err := Load(path, nil)
	if err != nil || len(cfg.Warnings) != 1 || !strings.Contains(cfg.Warnings[0], "chmod 600") {
		t.Errorf("%v, %v", cfg, err)
	}
}

func TestBadSecretFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for path, want := range map[string]string{
		filepath.Join(dir, "hunter2"):       "the file cannot be read: no such file or directory",
		dir:                                 "the file is not a regular file",
		write(t, dir, "empty", "\n", 0o600): "the file holds no secret: it is empty",
		write(t, dir, "lines", "hunter2\nhunter2\n", 0o600):       "the file holds no usable secret: it must be one line of printable ASCII",
		write(t, dir, "large", strings.Repeat("x", 1<<17), 0o600): "the file is too large for a secret",
	} {
		file := write(t, t.TempDir(), "c.yaml", "sources:\n- name: a\n  url: https://a.example/\n  auth:\n    bearer_file: "+path+"\n", 0o600)
		_, err := Load(file, nil)
		if want = "invalid configuration:\n  " + file + ":5: sources[0].auth.bearer_file: " + want; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v shows what was in the file or the key", err)
		}
	}
}

// TestConsoleAuth: a console may listen beyond this machine once somebody has to prove who they are; its secrets come from
// files too, and are shown nowhere.
func TestConsoleAuth(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	password, token := write(t, dir, "password", "hunter2\n", 0o600), write(t, dir, "token", "hunter3\n", 0o600)
	cfg := load(t, fmt.Sprintf("console: { listen: \"0.0.0.0:1\", user: me, password_file: %s, token_file: %s, hosts: [m.example] }\n", password, token))
	c := &cfg.Console
	if c.Password.Reveal() != "hunter2" || c.Token.Reveal() != "hunter3" || !c.Guarded() || len(c.Hosts) != 1 {
		t.Errorf("%+v", c)
	}
	inline := load(t, "console: { listen: \"[::]:1\" }\n", "RESYNCD_CONSOLE_TOKEN=hunter3")
	var out bytes.Buffer
	if err := inline.Print(&out); err != nil || inline.Console.Token.Reveal() != "hunter3" || !strings.Contains(out.String(), "token: (hidden)") {
		t.Errorf("%v: %s", err, &out)
	}
	out.Reset()
	if err := cfg.Print(&out); err != nil || strings.Contains(out.String(), "hunter") {
		t.Errorf("%v: %s", err, &out)
	}
	for listen, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "localhost:1": true, "LOCALHOST:1": true,
		":1": false, "0.0.0.0:1": false, "[::]:1": false, "192.0.2.1:1": false, "mirror.example:1": false,
	} {
		if local(listen) != want {
			t.Errorf("%s: %v", listen, !want)
		}
	}
}
