// Package nodelist reads the list of a group's members from the Nodes of the API server.
//
// # What it decides
//
// [Members] turns Nodes into members, [Judge] says whether a list is to be believed, both
// without I/O. All nodes of a group come to the same list from the same Nodes: nothing that
// differs from node to node enters it. Epochs are none of its business; the lists that are
// believed are shown to netgossip's Succession, under whose joint majorities they become valid.
//
// # Load on the API server
//
// [Source.Run] lists the Nodes with the group's label soon after the start, and then every
// Interval, spread by chance; there is no watch of them. These looks are answered from the
// server's cache (resource version 0). Only a list that differs from the present one is
// read again exactly, in pages, since a cache may be behind what was seen before. In groups of
// more than [groupLists] nodes each looks more rarely, so that the group's lists in an
// interval stay that many; when one node has found a change, the others hear from it that
// there is one, and look within a time that grows with the group.
//
// # Concurrency
//
// Run owns the only goroutine and calls the functions of [Config] from it; they must not
// block. [Source.Read] may be called from any goroutine before Run. A list ends after
// [listTimeout]. Errors are logged when they change, and mean that the present list stands.
package nodelist
