#include "config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <exception>
#include <map>
#include <sstream>
#include <utility>

namespace outrider {
namespace {

std::size_t count(const Node& node) {
  std::size_t sum = 1 + node.keys.size();
  for (const Node& item : node.items) {
    sum += count(item);
  }
  return sum;
}

// Builds the tree from the parser's events. Line and column of a Mark begin at zero.
class TreeBuilder final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(make(Node::Kind::nothing, mark), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node = make(Node::Kind::scalar, mark);
    node.text = value;
    node.plain = tag == "?";
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      throw YAML::ParserException(mark, "an alias of a value that contains it");
    }
    // Checked before the copy: nested aliases grow without bound from few bytes.
    charge(count(found->second), mark);
    place(found->second);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open_.push_back({make(Node::Kind::list, mark), anchor});
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open_.push_back({make(Node::Kind::map, mark), anchor});
  }
  void OnMapEnd() override { close(); }

  Node take() { return std::move(root_); }

 private:
  struct Open {
    Node node;
    YAML::anchor_t anchor;
  };

  Node make(Node::Kind kind, const YAML::Mark& mark) {
    charge(1, mark);
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    node.column = mark.column + 1;
    return node;
  }

  void charge(std::size_t nodes, const YAML::Mark& mark) {
    nodes_ += nodes;
    if (nodes_ > kYamlNodesMax) {
      throw YAML::ParserException(mark, "too many values");
    }
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    add(std::move(done.node), done.anchor);
  }

  void add(Node node, YAML::anchor_t anchor) {
    if (anchor != YAML::NullAnchor) {
      anchors_[anchor] = node;
    }
    place(std::move(node));
  }

  void place(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Node& parent = open_.back().node;
    bool key_is_next = parent.kind == Node::Kind::map && parent.keys.size() == parent.items.size();
    (key_is_next ? parent.keys : parent.items).push_back(std::move(node));
  }

  Node root_;
  std::vector<Open> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::size_t nodes_ = 0;
};

}  // namespace

tl::expected<Node, YamlFault> parse_yaml(const std::string& text) {
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder builder;
    if (!parser.HandleNextDocument(builder)) {
      return Node{};
    }
    TreeBuilder rest;
    if (parser.HandleNextDocument(rest)) {
      Node second = rest.take();
      return tl::unexpected(
          YamlFault{"a second document begins; only one is allowed", second.line, second.column});
    }
    return builder.take();
  } catch (const YAML::Exception& fault) {
    return tl::unexpected(
        YamlFault{"not valid YAML: " + fault.msg, fault.mark.line + 1, fault.mark.column + 1});
  } catch (const std::exception& fault) {
    return tl::unexpected(YamlFault{std::string("not valid YAML: ") + fault.what(), 0, 0});
  }
}

}  // namespace outrider
