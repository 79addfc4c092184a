package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"resyncd/store/blob"
)

// classify puts the mirror's own name on what the system says, so that the engine can tell a sick disk from a sick file.
// ENOENT is left alone: only the caller knows whether it speaks of the file that was asked for (F11).
func classify(err error) error {
	var cause error
	switch {
	case err == nil || isOurs(err):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		cause = blob.ErrNoSpace
	case errors.Is(err, syscall.EROFS):
		cause = blob.ErrReadOnly
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		cause = blob.ErrBusy
	case errors.Is(err, syscall.EIO), errors.Is(err, syscall.ESTALE):
		cause = blob.ErrIO
	case errors.Is(err, syscall.ENAMETOOLONG):
		cause = blob.ErrKey
	default:
		return err
	}
	return fmt.Errorf("%w: %w", cause, err)
}

// isOurs tells whether an error already carries one of the causes that classify would add.
func isOurs(err error) bool {
	return blob.Systemic(err) || errors.Is(err, blob.ErrKey)
}

// keyError tells of an attempt on a key. A folder lookup that failed below has already said where.
func keyError(op, key string, err error) error {
	if err == nil {
		return nil
	}
	if at, ok := errors.AsType[*blob.KeyError](err); ok {
		return &blob.KeyError{Op: op, Key: key, At: at.At, Err: at.Err}
	}
	return &blob.KeyError{Op: op, Key: key, Err: classify(err)}
}

// absent turns what a lookup says into "there is no such file", for calls that ask for an existing one. A parent that is
// not a folder means the same to them, but they say why.
func absent(err error) error {
	switch {
	case errors.Is(err, blob.ErrParentNotFolder):
		if at, ok := errors.AsType[*blob.KeyError](err); ok {
			return &blob.KeyError{At: at.At, Err: fmt.Errorf("%w: %w", blob.ErrNotFound, at.Err)}
		}
		return fmt.Errorf("%w: %w", blob.ErrNotFound, err)
	case errors.Is(err, fs.ErrNotExist):
		return blob.ErrNotFound
	default:
		return err
	}
}

// checkKey is the check of keys that shall get a file.
func checkKey(key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	return checkLocal(key)
}

// checkForeignKey is the check of keys that may be somebody else's.
func checkForeignKey(key string) error {
	if err := blob.CheckForeignKey(key); err != nil {
		return err
	}
	return checkLocal(key)
}

// checkLocal refuses what only this system takes for more than a name (drive letters, device names).
func checkLocal(key string) error {
	if !filepath.IsLocal(filepath.FromSlash(key)) {
		return fmt.Errorf("%w: not a local path on this system", blob.ErrKey)
	}
	return nil
}
