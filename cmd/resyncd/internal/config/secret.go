package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
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

// LogValue hides the text from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the text from encoding/json and friends.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML hides the text from YAML.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

func (s *Secret) set(text string) error {
	*s = NewSecret(text)
	return nil
}

// readSecret reads a secret without its line end. warn is set if others may read the file. Errors hold nothing of the
// content.
func readSecret(path, form string) (secret Secret, warn string, err error) {
	info, err := os.Stat(path) // a FIFO would block
	if err != nil {
		return Secret{}, "", errors.New("cannot be read: " + reason(err))
	}
	if !info.Mode().IsRegular() {
		return Secret{}, "", errors.New("is not a regular file")
	}
	if info.Size() > maxSecret {
		return Secret{}, "", errors.New("is too large for a secret")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return Secret{}, "", errors.New("cannot be read: " + reason(err))
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
	if text == "" {
		return Secret{}, "", errors.New("holds no secret: it is empty")
	}
	if err := checkForm(form, text); err != nil {
		return Secret{}, "", fmt.Errorf("holds no usable secret: it %w", err)
	}
	return NewSecret(text), exposed(path, info.Mode()), nil
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
