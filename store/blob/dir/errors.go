package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"resyncd/store/blob"
)

// classify adds the mirror's own error to the system's, so that the engine can tell a sick disk
// from a sick file. ENOENT stays: only the caller knows which file it is about (F11).
func classify(err error) error {
	var cause error
	switch {
	case err == nil || isClassified(err):
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

// isClassified reports whether an error already has one of the causes that classify adds.
func isClassified(err error) bool {
	return blob.Systemic(err) || errors.Is(err, blob.ErrKey)
}

// keyError adds operation and key, unless a folder lookup has named its folder.
func keyError(op, key string, err error) error {
	if err == nil {
		return nil
	}
	if at, ok := errors.AsType[*blob.KeyError](err); ok {
		return &blob.KeyError{Op: op, Key: key, At: at.At, Err: at.Err}
	}
	return &blob.KeyError{Op: op, Key: key, Err: classify(err)}
}

// asNotFound turns the failure of a lookup into "no such file". A parent that is no folder means
// the same, but is named.
func asNotFound(err error) error {
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

// checkKey checks a key, and refuses what only this system takes for more than a name (drive letters, device names).
func checkKey(key string, check func(string) error) error {
	if err := check(key); err != nil {
		return err
	}
	if !filepath.IsLocal(filepath.FromSlash(key)) {
		return fmt.Errorf("%w: not a local path on this system", blob.ErrKey)
	}
	return nil
}
