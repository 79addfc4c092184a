package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

const hidden = "(hidden)"

const maxSecret = 64 << 10

// Secret is a text that no log, error, page or export may show (P10). It lies behind a pointer because fmt prints
// unexported fields.
type Secret struct{ text *string }

// NewSecret wraps text; the empty text is no secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal is the text itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsSet reports whether there is anything to hide.
func (s Secret) IsSet() bool { return s.text != nil }

// Equal compares the texts.
func (s Secret) Equal(o Secret) bool { return s.Reveal() == o.Reveal() }

// String hides the text.
func (s Secret) String() string {
	if s.text == nil {
		return ""
	}
	return hidden
}

// Format hides the text from every verb of fmt.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText hides the text from encoding/json, yaml and slog.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// readSecret reads a text without its line end. warn is set if others may read the file.
func readSecret(path string) (text, warn string, err error) {
	info, err := os.Stat(path) // a FIFO would block
	var data []byte
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		return "", "", errors.New("is not a regular file")
	case info.Size() > maxSecret:
		return "", "", errors.New("is too large for a secret")
	default:
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return "", "", errors.New("cannot be read: " + reason(err))
	}
	text = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if text == "" {
		return "", "", errors.New("holds no secret: it is empty")
	}
	return text, exposed(path, info.Mode()), nil
}

// secretFiles reads secrets given by file, and reports whether any was given inline.
func (r *report) secretFiles(cfg *Config) (inline bool) {
	inline = r.secretsOf("console", cfg.Console.keys(), cfg)
	for i := range cfg.Sources {
		path, a := fmt.Sprintf("sources[%d].auth", i), &cfg.Sources[i].Auth
		inline = r.secretsOf(path, a.keys(), cfg) || inline
		for _, name := range slices.Sorted(maps.Keys(a.Header)) {
			value := a.Header[name]
			header, isFile := strings.CutSuffix(name, "_file")
			if !isFile {
				inline = true
				continue
			}
			delete(a.Header, name)
			r.secretFile(cfg, path+".header."+name, value.Reveal(), secret(name, &value, headerText))
			a.Header[header] = value
		}
	}
	return inline
}

// secretsOf takes for each secret of a section what its file holds.
func (r *report) secretsOf(path string, keys []key, cfg *Config) (inline bool) {
	for _, k := range keys {
		if file, ok := find(keys, k.name+"_file"); ok {
			inline = inline || k.given()
			r.secretFile(cfg, join(path, file.name), file.texts()[0], k)
		}
	}
	return inline
}

// secretFile gives the secret k what is in the file that key names. Problems hold nothing of the content, and not the
// name of the file, which may be the secret itself.
func (r *report) secretFile(cfg *Config, key, path string, k key) {
	if path == "" || !r.given(key) {
		return
	}
	text, warn, err := readSecret(path)
	if err == nil {
		if err = k.set(text); err != nil {
			err = fmt.Errorf("holds no usable secret: it %w", err)
		}
	}
	switch {
	case err != nil:
		r.clash(key, "the file "+err.Error())
	case warn != "":
		cfg.Warnings = append(cfg.Warnings, warn)
	}
}

// exposed warns of a file that others may read; Windows keeps rights elsewhere.
func exposed(path string, mode os.FileMode) string {
	if mode.Perm()&0o077 == 0 || runtime.GOOS == "windows" {
		return ""
	}
	return fmt.Sprintf("%s holds a secret and others may read it (mode %04o): run chmod 600 %s", path, mode.Perm(),
		path)
}

func reason(err error) string {
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return pe.Err.Error()
	}
	return err.Error()
}
