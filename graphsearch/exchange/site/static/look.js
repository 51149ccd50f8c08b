// Elements, numbers, and the colours of values. Orange is good for White, blue for Black; both stay
// distinct in all common kinds of colour blindness.

const SVG_NAMES = "http://www.w3.org/2000/svg";
const WHITE_WINS = [0xc8, 0x5a, 0x00];
const BLACK_WINS = [0x1f, 0x55, 0xa5];
const isDark = () => document.documentElement.dataset.theme === "dark";
const nodeEven = () => (isDark() ? [0x3a, 0x3f, 0x46] : [0xf3, 0xf1, 0xec]);
const edgeEven = () => (isDark() ? [0x86, 0x8d, 0x96] : [0x9a, 0x9a, 0x9a]);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined)); // texts stay texts
  return element;
}

const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG_NAMES, tag), attributes, children);

function colour(whiteQ, even) {
  if (whiteQ === null) return "#ffffff";
  const share = Math.min(1, Math.abs(whiteQ)) ** 0.5;
  const end = whiteQ > 0 ? WHITE_WINS : BLACK_WINS;
  return `#${even.map((a, k) => Math.round(a + share * (end[k] - a)).toString(16).padStart(2, "0")).join("")}`;
}

function ink(background) {
  const [red, green, blue] = [1, 3, 5].map((k) => parseInt(background.slice(k, k + 2), 16));
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#1a1a1a" : "#ffffff";
}

const widthOf = (n, most) => 0.8 + (most ? (n / most) ** 0.5 : 0) * 7.2;

const count = (n) => (n === null ? "" : n.toLocaleString("en"));
const percent = (p) => (p === null ? "" : `${(100 * p).toFixed(1)} %`);
const signed = (q, digits = 3) => {
  if (q === null) return "";
  const text = Math.abs(q).toFixed(digits);
  return Number(text) === 0 ? text : (q > 0 ? "+" : "\u2212") + text;
};
const pawns = (cp) => (cp === null ? "" : signed(cp / 100, 2));

function mateText(plies) {
  return plies === null ? "" : `#${plies < 0 ? "\u2212" : ""}${Math.ceil(Math.abs(plies) / 2)}`;
}

const numberOf = (fen) => `${fen.split(" ")[5]}${fen.split(" ")[1] === "w" ? "." : "\u2026"}`;
