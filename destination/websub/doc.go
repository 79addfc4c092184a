// Package websub knows the words of WebSub: the links by which topics and hubs name each other, the forms and queries
// that subscribers, hubs and publishers exchange, and the signatures of content. It refuses to know how they travel and
// what comes of them.
//
// Rules are cited as S-nn, H-nn, P-nn, T-nn and Q-nn from websub.md.
package websub
