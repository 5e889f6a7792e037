// Line icons on a 16 × 16 grid, drawn with the current text colour.

const PATHS = {
  sidebar: "M2.5 3.5h11v9h-11zM6 3.5v9",
  save: "M3 3h8l2 2v8H3zM5.5 3v3h4V3M5.5 13V9.5h5V13",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3L14 14",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10.5h3",
  filePlus: "M8.5 2H3.5v12h5M8.5 2l3.5 3.5V8M8.5 2v3.5H12M11.5 10v4.5M9.2 12.2h4.6",
  folderPlus: "M8 12.5H2v-9h4l1.5 2H14V9M11.5 10v4.5M9.2 12.2h4.6",
  upload: "M8 10.5v-8M4.8 5.5L8 2.3l3.2 3.2M2.5 10.5v3h11v-3",
  download: "M8 2.5v8M4.8 7.3L8 10.5l3.2-3.2M2.5 10.5v3h11v-3",
  refresh: "M13 8a5 5 0 1 1-1.6-3.7M13.2 2v3h-3",
  clock: "M8 14a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM8 4.8V8l2.3 1.5",
  minus: "M3 8h10",
  undo: "M5.5 3L2.5 6l3 3M2.5 6H10a3.5 3.5 0 0 1 0 7H6",
  branch: "M5 5v6M5 5a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM5 14a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM11 7a1.5 1.5 0 1 0 0-3 1.5 1.5 0 0 0 0 3zM11 7c0 2-2 3-5 3.5",
  copy: "M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z",
  cut: "M4.5 13a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4zM11.5 13a1.7 1.7 0 1 0 0-3.4 1.7 1.7 0 0 0 0 3.4zM5.5 9.8L11 2.5M10.5 9.8L5 2.5",
  paste: "M5.5 3.5h-2v10h9v-10h-2M5.5 2.5h5v2.5h-5z",
  eye: "M1.5 8S4 3.8 8 3.8 14.5 8 14.5 8 12 12.2 8 12.2 1.5 8 1.5 8zM8 9.8a1.8 1.8 0 1 0 0-3.6 1.8 1.8 0 0 0 0 3.6z",
  folderUp: "M2 12.5v-9h4l1.5 2H14v7zM8 11V7.5M6.3 9L8 7.3 9.7 9",
  command: "M3 4.5l3.5 3.5L3 11.5M8 12h5",
  plus: "M8 3v10M3 8h10",
  close: "M4 4l8 8M12 4l-8 8",
  chevronDown: "M4 6l4 4 4-4",
  chevronRight: "M6 4l4 4-4 4",
  chevronUp: "M4 10l4-4 4 4",
  maximize: "M3 6V3h3M10 3h3v3M13 10v3h-3M6 13H3v-3",
  folder: "M2 12.5v-9h4l1.5 2H14v7z",
  folderOpen: "M2 12.5v-9h4l1.5 2h5V7M2 12.5L4 7h10.5l-2 5.5z",
  file: "M9 2H4v12h8V5zM9 2v3h3",
  open: "M9.5 2.8h3.7v3.7M13 3L7.8 8.2M11.3 9.3v3.9H2.8V4.7h3.9",
  link: "M6.5 9.5l3-3M7 5l1.7-1.7a2.8 2.8 0 0 1 4 4L11 9M9 11l-1.7 1.7a2.8 2.8 0 0 1-4-4L5 7",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  trash: "M3 4.5h10M6 4.5v-2h4v2M4.5 4.5l.6 9h5.8l.6-9M6.7 7v4M9.3 7v4",
  pencil: "M3 13l.7-3L10.5 3.2l2.3 2.3L6 12.3zM9 4.7L11.3 7",
  warning: "M8 2.5L14.5 13.5h-13zM8 6.5v3.5M8 11.8v.2",
  check: "M3.5 8.5l3 3 6-7",
};

export function icon(name) {
  const ns = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(ns, "svg");
  svg.setAttribute("viewBox", "0 0 16 16");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(ns, "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}
