// Package websub knows the words of WebSub, so far the links by which documents, topics and hubs name each other, and it
// refuses to know how they travel: no network, no state, no policy.
//
// Rules are cited as S-nn from spec/websub.md.
package websub
