// What the highlighter knows of each language: comments, strings, words.

const words = (text) => new Set(text.split(" "));

const C_LIKE = { line: ["//"], block: [["/*", "*/", "comment"]], quotes: ['"', "'"] };
const HASH = { line: ["#"], quotes: ['"', "'"] };

const rust = { ...C_LIKE, quotes: ['"'], lifetimes: true, multiline: ['"'],
  words: words("as async await break const continue crate dyn else enum extern fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait type unsafe use where while"),
  constants: words("true false None Some Ok Err") };
const javascript = { ...C_LIKE, block: [...C_LIKE.block, ["`", "`", "string"]],
  words: words("async await break case catch class const continue debugger default delete do else export extends finally for from function get if import in instanceof let new of return set static super switch this throw try typeof var void while with yield as enum implements interface namespace private protected public readonly type declare abstract keyof satisfies"),
  constants: words("true false null undefined NaN Infinity") };
const python = { ...HASH, block: [['"""', '"""', "string"], ["'''", "'''", "string"]], decorators: true,
  words: words("and as assert async await break class continue def del elif else except finally for from global if import in is lambda match case nonlocal not or pass raise return try while with yield"),
  constants: words("True False None self cls") };
const go = { ...C_LIKE, block: [...C_LIKE.block, ["`", "`", "string"]],
  words: words("break case chan const continue default defer else fallthrough for func go goto if import interface map package range return select struct switch type var"),
  constants: words("true false nil iota") };
const c = { ...C_LIKE, preprocessor: true,
  words: words("alignas auto bool break case catch char class const constexpr continue default delete do double else enum explicit extern final float for friend goto if inline int long mutable namespace new noexcept operator override private protected public register return short signed sizeof static struct switch template this throw try typedef typename union unsigned using virtual void volatile while abstract boolean byte extends implements import instanceof interface native package synchronized throws transient var val fun when object companion data sealed func let guard protocol extension init self"),
  constants: words("true false null nullptr NULL nil") };
const shell = { ...HASH, variables: true, spaceBeforeComment: true, multiline: ['"', "'"],
  words: words("if then else elif fi for in do done while until case esac function select time return exit local export readonly declare set unset shift source alias cd echo printf test read trap eval exec"),
  constants: words("true false") };
const sql = { line: ["--"], block: [["/*", "*/", "comment"]], quotes: ["'", '"'], ignoreCase: true,
  words: words("select from where and or not in is as on join left right inner outer full cross group by order having limit offset insert into values update set delete create table index view drop alter add column primary key foreign references unique check default constraint with recursive union all distinct case when then else end exists between like begin commit rollback returning if"),
  constants: words("null true false") };
const ruby = { ...HASH, words: words("alias and begin break case class def defined do else elsif end ensure for if in module next not or redo rescue retry return self super then undef unless until when while yield require attr_reader attr_accessor"), constants: words("true false nil") };
const lua = { line: ["--"], block: [["--[[", "]]", "comment"], ["[[", "]]", "string"]], quotes: ['"', "'"],
  words: words("and break do else elseif end for function goto if in local not or repeat return then until while"), constants: words("true false nil") };
const css = { block: [["/*", "*/", "comment"]], quotes: ['"', "'"], css: true, words: words("important"), constants: words("") };
const config = { line: ["#", ";"], quotes: ['"', "'"], keys: true, spaceBeforeComment: true, words: words(""), constants: words("true false null yes no on off") };
const toml = { ...config, line: ["#"], block: [['"""', '"""', "string"]] };
const yaml = { ...config, line: ["#"] };
const json = { line: ["//"], block: [["/*", "*/", "comment"]], quotes: ['"'], keys: true, words: words(""), constants: words("true false null") };
const markup = { block: [["<!--", "-->", "comment"]], quotes: [], tags: true, words: words(""), constants: words("") };
const docker = { ...HASH, ignoreCase: true, words: words("from run cmd label expose env add copy entrypoint volume user workdir arg onbuild stopsignal healthcheck shell as"), constants: words("") };
const make = { ...HASH, variables: true, keys: true, words: words("ifeq ifneq ifdef ifndef else endif include define endef export override"), constants: words("") };
const markdown = { markdown: true };

const BY_EXTENSION = {
  rs: ["Rust", rust], js: ["JavaScript", javascript], mjs: ["JavaScript", javascript], cjs: ["JavaScript", javascript],
  jsx: ["JSX", javascript], ts: ["TypeScript", javascript], tsx: ["TSX", javascript],
  py: ["Python", python], go: ["Go", go], c: ["C", c], h: ["C", c], cc: ["C++", c], cpp: ["C++", c], hpp: ["C++", c],
  java: ["Java", c], kt: ["Kotlin", c], cs: ["C#", c], swift: ["Swift", c], php: ["PHP", { ...c, line: ["//", "#"] }],
  sh: ["Shell", shell], bash: ["Shell", shell], zsh: ["Shell", shell], bashrc: ["Shell", shell], profile: ["Shell", shell],
  sql: ["SQL", sql], rb: ["Ruby", ruby], lua: ["Lua", lua], css: ["CSS", css], scss: ["CSS", { ...css, line: ["//"] }],
  json: ["JSON", json], jsonc: ["JSON", json], toml: ["TOML", toml], lock: ["TOML", toml], yml: ["YAML", yaml], yaml: ["YAML", yaml],
  ini: ["INI", config], conf: ["Config", config], cfg: ["Config", config], env: ["Env", config], properties: ["Properties", config],
  html: ["HTML", markup], htm: ["HTML", markup], xml: ["XML", markup], svg: ["SVG", markup], vue: ["Vue", markup],
  md: ["Markdown", markdown], markdown: ["Markdown", markdown],
};
const BY_NAME = { dockerfile: ["Dockerfile", docker], makefile: ["Makefile", make], justfile: ["Just", make], gemfile: ["Ruby", ruby],
  ".bashrc": ["Shell", shell], ".profile": ["Shell", shell], ".zshrc": ["Shell", shell], ".gitconfig": ["Config", config] };

/// { name, rules } for a file; rules are null for plain text.
export function languageOf(fileName) {
  const lower = fileName.toLowerCase();
  const [name, rules] = BY_NAME[lower] ?? BY_EXTENSION[lower.split(".").at(-1)] ?? ["Text", null];
  return { name, rules };
}
